# What Turnstile stands on is watched where it is named.

mock_provider "aws" {
  mock_data "aws_region" {
    defaults = { name = "eu-central-1" }
  }
  mock_resource "aws_sns_topic" {
    defaults = { arn = "arn:aws:sns:eu-central-1:123456789012:test" }
  }
}

variables {
  name     = "test"
  runbooks = "https://wiki.example/turnstile"
  queues = {
    turns = { sqs_name = "turnstile-turns", dlq_name = "turnstile-turns-dlq", worker_log_group = "/turnstile/worker" }
  }
  services = {
    api    = { cluster_name = "test", service_name = "test-api", service_arn = "arn:aws:ecs:eu-central-1:123456789012:service/test/test-api" }
    worker = { cluster_name = "test", service_name = "test-worker", service_arn = "arn:aws:ecs:eu-central-1:123456789012:service/test/test-worker" }
  }
  postgres      = { identifier = "test-postgres", storage_gib = 100 }
  redis_nodes   = { locks-1 = "test-locks-001", memory-1 = "test-memory-001" }
  load_balancer = { load_balancer = "app/test/1", target_group = "targetgroup/test/2" }
}

run "nothing_that_is_not_named" {
  variables {
    services      = {}
    postgres      = null
    redis_nodes   = {}
    load_balancer = null
  }

  assert {
    condition = (
      length(aws_cloudwatch_metric_alarm.service) + length(aws_cloudwatch_metric_alarm.postgres) + length(aws_cloudwatch_metric_alarm.redis)
      + length(aws_cloudwatch_metric_alarm.api_errors) + length(aws_cloudwatch_event_rule.deployment_failed) == 0
    )
    error_message = "Queues alone have the alarms of queues."
  }
}

run "each_has_its_alarms" {
  assert {
    condition = toset(keys(aws_cloudwatch_metric_alarm.service)) == toset([
      "api/service-cpu", "api/service-memory", "worker/service-cpu", "worker/service-memory",
      ]) && toset(keys(aws_cloudwatch_metric_alarm.redis)) == toset(flatten([for node in ["locks-1", "memory-1"] : [
        "${node}/redis-memory", "${node}/redis-cpu", "${node}/redis-evictions", "${node}/redis-replication-lag",
      ]])) && toset(keys(aws_cloudwatch_metric_alarm.postgres)) == toset([
      "postgres-cpu", "postgres-storage", "postgres-memory", "postgres-connections",
    ])
    error_message = "CPU, memory and what runs full."
  }

  assert {
    condition = (
      aws_cloudwatch_metric_alarm.postgres["postgres-storage"].threshold == 10 * 1024 * 1024 * 1024
      && aws_cloudwatch_metric_alarm.postgres["postgres-storage"].comparison_operator == "LessThanThreshold"
      && aws_cloudwatch_metric_alarm.postgres["postgres-storage"].alarm_actions == toset([aws_sns_topic.alarms["page"].arn])
    )
    error_message = "Below a tenth of the storage it pages."
  }

  assert {
    condition = alltrue([
      for one in concat(
        values(aws_cloudwatch_metric_alarm.service), values(aws_cloudwatch_metric_alarm.postgres), values(aws_cloudwatch_metric_alarm.redis), aws_cloudwatch_metric_alarm.api_errors,
      ) :
      can(regex(" Owner: operators\\. Runbook: https://wiki.example/turnstile/[a-z-]+\\.md$", one.alarm_description)) && one.tags.owner == "operators" && one.ok_actions == one.alarm_actions
    ])
    error_message = "Every alarm has an owner and a runbook, and its topic hears its end."
  }
}

run "refused_clients" {
  assert {
    condition = [for query in aws_cloudwatch_metric_alarm.api_errors[0].metric_query : query.expression if query.id == "judged"] == [
      "IF(requests + refused > 20, 100 * (failed + refused) / (requests + refused), 0)"
    ]
    error_message = "The share is of all requests, also of those that found no target."
  }

  assert {
    condition = {
      for query in aws_cloudwatch_metric_alarm.api_errors[0].metric_query : query.id => "${query.metric[0].metric_name} ${join(" ", keys(query.metric[0].dimensions))}" if query.id != "judged"
      } == {
      requests = "RequestCount LoadBalancer TargetGroup"
      failed   = "HTTPCode_Target_5XX_Count LoadBalancer TargetGroup"
      refused  = "HTTPCode_ELB_5XX_Count LoadBalancer"
    }
    error_message = "The load balancer's own 5xx have no target group."
  }
}

run "a_deployment_that_fails" {
  assert {
    condition = jsondecode(aws_cloudwatch_event_rule.deployment_failed[0].event_pattern) == {
      source      = ["aws.ecs"]
      detail-type = ["ECS Deployment State Change"]
      resources = [
        "arn:aws:ecs:eu-central-1:123456789012:service/test/test-api", "arn:aws:ecs:eu-central-1:123456789012:service/test/test-worker",
      ]
      detail = { eventName = ["SERVICE_DEPLOYMENT_FAILED"] }
    }
    error_message = "The rule is about these services, and no other of the account."
  }

  assert {
    condition     = aws_cloudwatch_event_target.deployment_failed[0].arn == aws_sns_topic.alarms["page"].arn
    error_message = "It pages."
  }

  assert {
    condition     = contains([for one in jsondecode(aws_sns_topic_policy.alarms["page"].policy).Statement : one.Principal if one.Effect == "Allow"], { Service = "events.amazonaws.com" })
    error_message = "The topic takes it."
  }
}
