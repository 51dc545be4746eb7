# What an emulator of AWS can take, for `make infra-check`: the queues, the roles and the alarms, and nothing that costs money. Where it is
# comes from the environment (AWS_ENDPOINT_URL and credentials).

terraform {
  required_version = ">= 1.9"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = "~> 5.100"
    }
  }
}

provider "aws" {
  skip_metadata_api_check = true
}

module "turns" {
  source = "../../modules/queue"

  name   = "turns"
  prefix = "check-"
}

module "strict" {
  source = "../../modules/queue"

  name   = "strict"
  prefix = "check-"
  fifo   = true
}

locals {
  service_arn = "arn:aws:ecs:us-east-1:000000000000:service/check/check-worker"
  queues      = { turns = module.turns, strict = module.strict }
}

module "roles" {
  source = "../../modules/roles"

  name        = "check"
  cluster_arn = "arn:aws:ecs:us-east-1:000000000000:cluster/check"
  queues      = { for name, queue in local.queues : name => queue.access }
}

resource "aws_cloudwatch_log_group" "relay" {
  name              = "/turnstile/check-relay"
  retention_in_days = 1
}

resource "aws_cloudwatch_log_group" "worker" {
  for_each = local.queues

  name              = "/turnstile/check-worker-${each.key}"
  retention_in_days = 1
}

module "alarms" {
  source = "../../modules/alarms"

  name             = "check"
  relay_log_groups = [aws_cloudwatch_log_group.relay.name]
  queues = {
    for name, queue in local.queues : name => {
      sqs_name         = queue.sqs_name
      dlq_name         = queue.dlq_name
      worker_log_group = aws_cloudwatch_log_group.worker[name].name
      timeout_seconds  = queue.declaration.timeout_seconds
    }
  }
  # None of these is there: their metrics are made up.
  services = {
    worker = { cluster_name = "check", service_name = "check-worker", service_arn = local.service_arn }
  }
  postgres      = { identifier = "check-postgres", storage_gib = 100 }
  redis_nodes   = { locks-1 = "check-locks-001" }
  load_balancer = { load_balancer = "app/check/1", target_group = "targetgroup/check/2" }
}

output "declarations" {
  description = "TURNSTILE_QUEUES, entry by entry."
  value       = { for name, queue in local.queues : name => queue.declaration }
}

output "access" {
  description = "ARNs of the queues."
  value       = { for name, queue in local.queues : name => queue.access }
}

output "roles" {
  description = "Role ARNs by kind of process."
  value       = module.roles.arns
}

output "policies" {
  description = "Their policies."
  value       = module.roles.policies
}

output "topics" {
  description = "Alarm topics."
  value       = module.alarms.topic_arns
}

output "log_patterns" {
  description = "What is counted from the log."
  value       = module.alarms.log_patterns
}

output "backlog_patterns" {
  description = "The log line that reports the backlog."
  value       = module.alarms.backlog_patterns
}

output "attention_patterns" {
  description = "The log line that reports what waits for a person."
  value       = module.alarms.attention_patterns
}

output "workers_patterns" {
  value = module.alarms.workers_patterns
}

output "standstill_patterns" {
  value = module.alarms.standstill_patterns
}

output "lost_patterns" {
  description = "The log line that reports a lost worker."
  value       = module.alarms.lost_patterns
}

output "service_arn" {
  description = "The service whose deployments are watched."
  value       = local.service_arn
}

output "namespace" {
  description = "Namespace of what is counted from the log."
  value       = module.alarms.namespace
}
