# Two caches, because they fail differently: `locks` must never evict and may be lost whole; `memory` holds histories, working
# memories and events, which are many, and are rebuilt from Postgres. One primary with a replica each, no Redlock, failover
# by ElastiCache.

locals {
  caches = {
    locks  = "Session locks, for seconds at a time"
    memory = "Histories, working memories and event streams"
  }
}

resource "aws_elasticache_subnet_group" "redis" {
  name       = "${var.name}-redis"
  subnet_ids = var.subnet_ids
  tags       = var.tags
}

resource "aws_security_group" "redis" {
  name        = "${var.name}-redis"
  description = "Redis from the tasks"
  vpc_id      = var.vpc_id
  tags        = var.tags
}

resource "aws_vpc_security_group_ingress_rule" "redis" {
  for_each = var.client_security_group_ids

  security_group_id            = aws_security_group.redis.id
  description                  = "Redis from ${each.key}"
  referenced_security_group_id = each.value
  ip_protocol                  = "tcp"
  from_port                    = 6379
  to_port                      = 6379
}

resource "aws_elasticache_parameter_group" "redis" {
  for_each = local.caches

  name        = "${var.name}-${each.key}"
  family      = "redis7"
  description = each.value
  tags        = var.tags

  # Refuse rather than evict: a lock that is evicted is a lock that is lost, and an item that is evicted was never asked.
  parameter {
    name  = "maxmemory-policy"
    value = "noeviction"
  }

  # ElastiCache offers no append-only file together with replicas: the replica is what survives a node, Postgres what survives both.
}

resource "aws_elasticache_replication_group" "redis" {
  for_each = local.caches

  replication_group_id       = "${var.name}-${each.key}"
  description                = each.value
  engine                     = "redis"
  engine_version             = "7.1"
  node_type                  = var.redis_node_type
  num_cache_clusters         = 2
  automatic_failover_enabled = true
  multi_az_enabled           = true
  port                       = 6379
  parameter_group_name       = aws_elasticache_parameter_group.redis[each.key].name
  subnet_group_name          = aws_elasticache_subnet_group.redis.name
  security_group_ids         = [aws_security_group.redis.id]
  transit_encryption_enabled = true
  transit_encryption_mode    = "required"
  at_rest_encryption_enabled = true
  kms_key_id                 = var.kms_key_arn
  auth_token                 = var.redis_auth_token
  # A restored lock would be a lock of the past: nothing of `locks` is kept.
  snapshot_retention_limit   = each.key == "locks" ? 0 : var.redis_snapshot_days
  auto_minor_version_upgrade = true
  apply_immediately          = false
  tags                       = var.tags
}
