output "turnstile_queues" {
  description = "TURNSTILE_QUEUES as the tasks get it; whoever gives operators' commands on a machine of the VPC needs the same."
  value       = local.environment.TURNSTILE_QUEUES
}

output "api_host" {
  description = "The load balancer; point the certificate's host name at it."
  value       = aws_lb.api.dns_name
}

output "secrets" {
  description = "Secrets that wait for their values."
  value       = merge(local.secret_arns, { for kind, secret in aws_secretsmanager_secret.database : "${kind}/DATABASE_URL" => secret.arn }, { "owner/DATABASE_URL" = aws_secretsmanager_secret.owner.arn })
}

output "migrate_task_definition_arn" {
  description = "What `turnstile migrate` runs as."
  value       = module.migrate.task_definition_arn
}

output "operator_task_definition_arn" {
  description = "What operators' commands run as: `turnstile doctor`, or with `--overrides` any other, as a daily `turnstile archive`."
  value       = module.operator.task_definition_arn
}

output "operator_role_arn" {
  description = "Its task role, which ECS alone may take on."
  value       = module.roles.arns["operator"]
}

output "operator_policy" {
  description = "What that role may do, for the role of a machine in the VPC on which operators work."
  value       = module.roles.policies["operator"]
}

output "cluster" {
  description = "Cluster for `aws ecs run-task`."
  value       = aws_ecs_cluster.cluster.name
}

output "task_network" {
  description = "`--network-configuration` for `aws ecs run-task`: where tasks are, and nobody else reaches the database."
  value = jsonencode({
    awsvpcConfiguration = {
      subnets        = var.private_subnet_ids
      securityGroups = [aws_security_group.tasks.id]
      assignPublicIp = "DISABLED"
    }
  })
}

output "postgres_address" {
  description = "Host of the database, reached from inside the VPC only."
  value       = module.data.postgres_address
}

output "postgres_owner_secret_arn" {
  description = "Secret with turnstile_owner's password, changed every seven days: for the person who makes the roles."
  value       = module.data.postgres_owner_secret_arn
}

output "redis_addresses" {
  description = "Hosts of the caches: `locks` for REDIS_URL, `memory` for TURNSTILE_MEMORY_REDIS_URL."
  value       = module.data.redis_addresses
}

output "alarm_topics" {
  description = "Topics to subscribe to."
  value       = module.alarms.topic_arns
}
