output "sqs_endpoint_id" {
  description = "For `vpc_endpoint_ids` of module queue; null where SQS is not among the services."
  value       = try(aws_vpc_endpoint.interface["sqs"].id, null)
}

output "security_group_id" {
  description = "Security group of the endpoints."
  value       = aws_security_group.endpoints.id
}
