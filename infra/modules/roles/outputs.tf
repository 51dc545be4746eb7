output "arns" {
  description = "Role ARNs by kind of process: api, relay, operator, and worker-<queue> for each queue."
  value       = { for name, role in aws_iam_role.task : name => role.arn }
}

output "policies" {
  description = "The policy documents by the same names, for tests and reviews."
  value       = local.policies
}
