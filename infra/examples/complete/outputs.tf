output "turnstile_queues" {
  description = "TURNSTILE_QUEUES as the tasks get it; operators outside need the same."
  value       = local.environment.TURNSTILE_QUEUES
}

output "api_host" {
  description = "The load balancer; point the certificate's host name at it."
  value       = aws_lb.api.dns_name
}

output "secrets" {
  description = "Secrets that wait for their values."
  value       = merge(local.secret_arns, { "owner/DATABASE_URL" = aws_secretsmanager_secret.owner.arn })
}

output "migrate_task_definition_arn" {
  description = "What `turnstile migrate` and `turnstile archive` run as, by hand or from a schedule."
  value       = module.migrate.task_definition_arn
}

output "operator_role_arn" {
  description = "Task role for `turnstile redrive`, `dlq` and `doctor`."
  value       = module.roles.arns["operator"]
}

output "alarm_topics" {
  description = "Topics to subscribe to."
  value       = module.alarms.topic_arns
}
