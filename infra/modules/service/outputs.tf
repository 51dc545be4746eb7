output "service_name" {
  description = "Name of the ECS service; null if there is none."
  value       = one(aws_ecs_service.service[*].name)
}

output "service_arn" {
  description = "Its ARN; null if there is none."
  value       = one(aws_ecs_service.service[*].id)
}

output "log_group_name" {
  description = "Where its log goes."
  value       = aws_cloudwatch_log_group.log.name
}

output "task_definition_arn" {
  description = "The task definition, for tasks that run once (`migrate`, `archive`, `redrive`)."
  value       = aws_ecs_task_definition.task.arn
}

output "execution_role_arn" {
  description = "The agent's role."
  value       = aws_iam_role.execution.arn
}

output "container_definition" {
  description = "The container as it is given to ECS, for tests and reviews."
  value       = local.definition
}
