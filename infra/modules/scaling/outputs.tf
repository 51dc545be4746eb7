output "policy_arns" {
  description = "The two scaling policies."
  value       = { backlog = aws_appautoscaling_policy.backlog.arn, oldest = aws_appautoscaling_policy.oldest.arn }
}
