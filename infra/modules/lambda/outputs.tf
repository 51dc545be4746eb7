output "function_name" {
  description = "Name of the function."
  value       = aws_lambda_function.worker.function_name
}

output "log_group_name" {
  description = "Where its log goes, for module alarms."
  value       = aws_cloudwatch_log_group.log.name
}

output "policy" {
  description = "The role's policy document, for tests and reviews."
  value       = aws_iam_role_policy.function.policy
}
