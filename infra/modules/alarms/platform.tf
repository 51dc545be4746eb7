# What Turnstile stands on: its tasks and their deployments, RDS, ElastiCache, the load balancer. Each alarm is there where its
# resource is named.

locals {
  # `all` periods of five minutes in a row.
  service_alarms = {
    service-cpu = {
      description = "Tasks use nearly all of their CPU.", runbook = "backlog-grows.md"
      metric      = "CPUUtilization", statistic = "Average", all = 3, actions = local.tell
    }
    service-memory = {
      description = "Tasks use nearly all of their memory; one that uses all of it is killed with its turns.", runbook = "deaf-or-silent-worker.md"
      metric      = "MemoryUtilization", statistic = "Maximum", all = 2, actions = local.tell
    }
  }

  postgres_alarms = var.postgres == null ? {} : {
    postgres-cpu = {
      description = "RDS uses nearly all of its CPU.", runbook = "postgres-failover.md"
      metric      = "CPUUtilization", statistic = "Average", comparison = "GreaterThanThreshold", all = 3
      threshold   = local.thresholds["postgres-cpu"], actions = local.tell
    }
    # Full storage stops every submit and every settle.
    postgres-storage = {
      description = "The storage of RDS is nearly full.", runbook = "postgres-failover.md"
      metric      = "FreeStorageSpace", statistic = "Minimum", comparison = "LessThanThreshold", all = 1
      threshold   = local.thresholds["postgres-storage"] / 100 * var.postgres.storage_gib * 1024 * 1024 * 1024, actions = local.page
    }
    postgres-memory = {
      description = "RDS has hardly any memory left.", runbook = "postgres-failover.md"
      metric      = "FreeableMemory", statistic = "Minimum", comparison = "LessThanThreshold", all = 3
      threshold   = local.thresholds["postgres-memory"], actions = local.tell
    }
    postgres-connections = {
      description = "RDS has many connections: a process is refused when they run out.", runbook = "postgres-failover.md"
      metric      = "DatabaseConnections", statistic = "Maximum", comparison = "GreaterThanThreshold", all = 2
      threshold   = local.thresholds["postgres-connections"], actions = local.tell
    }
  }

  redis_alarms = {
    # `noeviction`: a full Redis refuses locks and events.
    redis-memory = {
      description = "A node of Redis is nearly full, and refuses writes when it is.", runbook = "redis-down.md"
      metric      = "DatabaseMemoryUsagePercentage", statistic = "Maximum", all = 2, actions = local.page
    }
    redis-cpu = {
      description = "A node of Redis uses nearly all of its one core.", runbook = "redis-down.md"
      metric      = "EngineCPUUtilization", statistic = "Average", all = 3, actions = local.tell
    }
    redis-evictions = {
      description = "Redis evicts keys: its maxmemory-policy is not the one of modules/data.", runbook = "redis-down.md"
      metric      = "Evictions", statistic = "Sum", all = 1, actions = local.tell
    }
    redis-replication-lag = {
      description = "A replica of Redis is behind: a failover would lose what it has not got.", runbook = "redis-down.md"
      metric      = "ReplicationLag", statistic = "Maximum", all = 3, actions = local.tell
    }
  }

  of_services = merge([
    for service, names in var.services : { for alarm, one in local.service_alarms : "${service}/${alarm}" => merge(one, { service = service, alarm = alarm }) }
  ]...)
  of_redis = merge([
    for node, id in var.redis_nodes : { for alarm, one in local.redis_alarms : "${node}/${alarm}" => merge(one, { node = node, alarm = alarm }) }
  ]...)
}

resource "aws_cloudwatch_metric_alarm" "service" {
  for_each = local.of_services

  alarm_name          = "${var.name}-${each.value.service}-${each.value.alarm}"
  alarm_description   = "${each.value.description} Owner: ${var.owner}. Runbook: ${var.runbooks}/${each.value.runbook}"
  namespace           = "AWS/ECS"
  metric_name         = each.value.metric
  dimensions          = { ClusterName = var.services[each.value.service].cluster_name, ServiceName = var.services[each.value.service].service_name }
  statistic           = each.value.statistic
  period              = 300
  evaluation_periods  = each.value.all
  threshold           = local.thresholds[each.value.alarm]
  comparison_operator = "GreaterThanThreshold"
  treat_missing_data  = "notBreaching"
  alarm_actions       = each.value.actions
  ok_actions          = each.value.actions
  tags                = merge(var.tags, { owner = var.owner })
}

resource "aws_cloudwatch_metric_alarm" "postgres" {
  for_each = local.postgres_alarms

  alarm_name          = "${var.name}-${each.key}"
  alarm_description   = "${each.value.description} Owner: ${var.owner}. Runbook: ${var.runbooks}/${each.value.runbook}"
  namespace           = "AWS/RDS"
  metric_name         = each.value.metric
  dimensions          = { DBInstanceIdentifier = var.postgres.identifier }
  statistic           = each.value.statistic
  period              = 300
  evaluation_periods  = each.value.all
  threshold           = each.value.threshold
  comparison_operator = each.value.comparison
  treat_missing_data  = "notBreaching"
  alarm_actions       = each.value.actions
  ok_actions          = each.value.actions
  tags                = merge(var.tags, { owner = var.owner })
}

resource "aws_cloudwatch_metric_alarm" "redis" {
  for_each = local.of_redis

  alarm_name          = "${var.name}-${each.value.node}-${each.value.alarm}"
  alarm_description   = "${each.value.description} Owner: ${var.owner}. Runbook: ${var.runbooks}/${each.value.runbook}"
  namespace           = "AWS/ElastiCache"
  metric_name         = each.value.metric
  dimensions          = { CacheClusterId = var.redis_nodes[each.value.node] }
  statistic           = each.value.statistic
  period              = 300
  evaluation_periods  = each.value.all
  threshold           = local.thresholds[each.value.alarm]
  comparison_operator = "GreaterThanThreshold"
  treat_missing_data  = "notBreaching"
  alarm_actions       = each.value.actions
  ok_actions          = each.value.actions
  tags                = merge(var.tags, { owner = var.owner })
}

# Clients that are refused. `RequestCount` has only the requests that found a target; it leaves out the 5xx of the load balancer itself.
resource "aws_cloudwatch_metric_alarm" "api_errors" {
  count = var.load_balancer == null ? 0 : 1

  alarm_name          = "${var.name}-api-errors"
  alarm_description   = "The API answers too many requests with 5xx: what is not submitted does not wait. Owner: ${var.owner}. Runbook: ${var.runbooks}/postgres-failover.md"
  evaluation_periods  = 5
  threshold           = local.thresholds["api-errors"]
  comparison_operator = "GreaterThanThreshold"
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.page
  ok_actions          = local.page
  tags                = merge(var.tags, { owner = var.owner })

  metric_query {
    id          = "judged"
    label       = "api-errors"
    expression  = "IF(requests + refused > 20, 100 * (failed + refused) / (requests + refused), 0)"
    return_data = true
  }

  dynamic "metric_query" {
    for_each = { requests = "RequestCount", failed = "HTTPCode_Target_5XX_Count", refused = "HTTPCode_ELB_5XX_Count" }

    content {
      id = metric_query.key
      metric {
        namespace   = "AWS/ApplicationELB"
        metric_name = metric_query.value
        # The load balancer's own 5xx are counted for it alone.
        dimensions = metric_query.key == "refused" ? { LoadBalancer = var.load_balancer.load_balancer } : {
          LoadBalancer = var.load_balancer.load_balancer, TargetGroup = var.load_balancer.target_group
        }
        stat   = "Sum"
        period = 60
      }
    }
  }
}

# A deployment that the circuit breaker of modules/service gives up, and rolls back: `terraform apply` has ended well long before.
resource "aws_cloudwatch_event_rule" "deployment_failed" {
  count = length(var.services) == 0 ? 0 : 1

  name        = "${var.name}-deployment-failed"
  description = "An ECS deployment has failed and is rolled back. Owner: ${var.owner}. Runbook: ${var.runbooks}/bad-deploy.md"
  event_pattern = jsonencode({
    source      = ["aws.ecs"]
    detail-type = ["ECS Deployment State Change"]
    resources   = sort([for one in values(var.services) : one.service_arn])
    detail      = { eventName = ["SERVICE_DEPLOYMENT_FAILED"] }
  })
  tags = merge(var.tags, { owner = var.owner })
}

resource "aws_cloudwatch_event_target" "deployment_failed" {
  count = length(var.services) == 0 ? 0 : 1

  rule = aws_cloudwatch_event_rule.deployment_failed[0].name
  arn  = aws_sns_topic.alarms["page"].arn

  input_transformer {
    input_paths    = { service = "$.resources[0]", reason = "$.detail.reason" }
    input_template = "\"A deployment of <service> has failed and is rolled back: <reason> Owner: ${var.owner}. Runbook: ${var.runbooks}/bad-deploy.md\""
  }
}
