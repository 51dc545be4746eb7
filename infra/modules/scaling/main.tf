# Workers follow their queue: target tracking on work per task, and a step on the age of the oldest for when
# messages are few and slow. ADR 0025 says why work in hand counts too, and why the table's numbers are better than SQS's.

locals {
  by_table = var.backlog != null

  # By their ids in the formulas.
  names = local.by_table ? tomap({
    waiting = "${var.backlog.queue}.backlog_ready"
    in_hand = "${var.backlog.queue}.backlog_running"
    oldest  = "${var.backlog.queue}.backlog_oldest_seconds"
    paused  = "${var.backlog.queue}.paused"
    }) : tomap({
    waiting = "ApproximateNumberOfMessagesVisible"
    in_hand = "ApproximateNumberOfMessagesNotVisible"
    oldest  = "ApproximateAgeOfOldestMessage"
  })
  namespace  = local.by_table ? var.backlog.namespace : "AWS/SQS"
  dimensions = local.by_table ? {} : { QueueName = var.sqs_name }

  # SQS reports nothing about a queue that nobody uses. The relay reports every minute: where it is silent it is away, and then nothing is
  # known, so that nothing is changed and somebody is paged (`relay-silent`).
  load     = local.by_table ? "(waiting + in_hand)" : "(FILL(waiting, 0) + FILL(in_hand, 0))"
  per_task = "${local.load} / IF(FILL(tasks, 0) > 0, tasks, 1)"
  # What waits grows during a pause, and no task can answer it: at its target, the policy changes nothing.
  tracked = local.by_table ? "IF(FILL(paused, 0) > 0, ${var.messages_per_task}, ${local.per_task})" : local.per_task

  # SQS's oldest message may be in flight, where it gets as old as a turn may take: that asks for no task. The table's is unclaimed.
  oldest_above = local.by_table ? var.oldest_seconds : var.timeout_seconds + var.oldest_seconds
}

resource "aws_appautoscaling_target" "tasks" {
  service_namespace  = "ecs"
  scalable_dimension = "ecs:service:DesiredCount"
  resource_id        = "service/${var.cluster_name}/${var.service_name}"
  min_capacity       = var.minimum
  max_capacity       = var.maximum
  tags               = var.tags
}

resource "aws_appautoscaling_policy" "backlog" {
  name               = "${var.service_name}-backlog-per-task"
  policy_type        = "TargetTrackingScaling"
  service_namespace  = aws_appautoscaling_target.tasks.service_namespace
  scalable_dimension = aws_appautoscaling_target.tasks.scalable_dimension
  resource_id        = aws_appautoscaling_target.tasks.resource_id

  target_tracking_scaling_policy_configuration {
    target_value       = var.messages_per_task
    scale_out_cooldown = 60
    scale_in_cooldown  = var.scale_in_cooldown_seconds

    customized_metric_specification {
      dynamic "metrics" {
        for_each = { for id, name in local.names : id => name if id != "oldest" }

        content {
          id          = metrics.key
          return_data = false
          metric_stat {
            stat = "Maximum"
            metric {
              namespace   = local.namespace
              metric_name = metrics.value

              dynamic "dimensions" {
                for_each = local.dimensions

                content {
                  name  = dimensions.key
                  value = dimensions.value
                }
              }
            }
          }
        }
      }
      metrics {
        id          = "tasks"
        return_data = false
        metric_stat {
          stat = "Average"
          metric {
            namespace   = "ECS/ContainerInsights"
            metric_name = "RunningTaskCount"
            dimensions {
              name  = "ClusterName"
              value = var.cluster_name
            }
            dimensions {
              name  = "ServiceName"
              value = var.service_name
            }
          }
        }
      }
      metrics {
        id          = "per_task"
        label       = "work per running task"
        expression  = local.tracked
        return_data = true
      }
    }
  }
}

resource "aws_appautoscaling_policy" "oldest" {
  name               = "${var.service_name}-oldest-message"
  policy_type        = "StepScaling"
  service_namespace  = aws_appautoscaling_target.tasks.service_namespace
  scalable_dimension = aws_appautoscaling_target.tasks.scalable_dimension
  resource_id        = aws_appautoscaling_target.tasks.resource_id

  step_scaling_policy_configuration {
    adjustment_type          = "PercentChangeInCapacity"
    min_adjustment_magnitude = 1
    cooldown                 = 120
    metric_aggregation_type  = "Maximum"

    # Bounds are seconds above the alarm's threshold.
    step_adjustment {
      metric_interval_lower_bound = 0
      metric_interval_upper_bound = var.oldest_seconds * 4
      scaling_adjustment          = 25
    }
    step_adjustment {
      metric_interval_lower_bound = var.oldest_seconds * 4
      scaling_adjustment          = 100
    }
  }
}

resource "aws_cloudwatch_metric_alarm" "oldest" {
  alarm_name          = "${var.service_name}-scale-out-on-oldest"
  alarm_description   = "Adds tasks; pages nobody."
  evaluation_periods  = 2
  threshold           = local.oldest_above
  comparison_operator = "GreaterThanThreshold"
  treat_missing_data  = "notBreaching"
  alarm_actions       = [aws_appautoscaling_policy.oldest.arn]
  tags                = var.tags

  dynamic "metric_query" {
    for_each = { for id, name in local.names : id => name if contains(["oldest", "paused"], id) }

    content {
      id = metric_query.key
      # SQS knows of no pause: its number is judged as it is.
      return_data = !local.by_table
      metric {
        namespace   = local.namespace
        metric_name = metric_query.value
        dimensions  = local.dimensions
        stat        = "Maximum"
        period      = 60
      }
    }
  }

  dynamic "metric_query" {
    for_each = local.by_table ? ["IF(FILL(paused, 0) > 0, 0, oldest)"] : []

    content {
      id          = "unanswered"
      label       = "age of the oldest turn, 0 while the queue is paused"
      expression  = metric_query.value
      return_data = true
    }
  }
}
