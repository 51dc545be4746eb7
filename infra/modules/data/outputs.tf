output "postgres_address" {
  description = "Host of the database, for DATABASE_URL with sslmode=verify-full."
  value       = aws_db_instance.postgres.address
}

output "postgres_owner_secret_arn" {
  description = "Secret that RDS keeps the owner's password in, and changes every seven days: for a person, who makes the roles of infra/README.md with it, and for no process."
  value       = try(aws_db_instance.postgres.master_user_secret[0].secret_arn, null)
}

output "redis_addresses" {
  description = "Primary endpoints, for rediss:// URLs: locks for REDIS_URL, memory for TURNSTILE_MEMORY_REDIS_URL."
  value       = { for name, cache in aws_elasticache_replication_group.redis : name => cache.primary_endpoint_address }
}

output "postgres" {
  description = "The database as modules/alarms watches it."
  value       = { identifier = aws_db_instance.postgres.identifier, storage_gib = var.storage_gib }
}

output "redis_nodes" {
  description = "The nodes of the caches as modules/alarms watches them. ElastiCache numbers them."
  value = merge([
    for name, cache in aws_elasticache_replication_group.redis : { for node in range(1, 3) : "${name}-${node}" => "${cache.replication_group_id}-00${node}" }
  ]...)
}
