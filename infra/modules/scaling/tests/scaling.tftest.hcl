# How workers follow their queue.

mock_provider "aws" {
  mock_resource "aws_appautoscaling_policy" {
    defaults = { arn = "arn:aws:autoscaling:eu-central-1:123456789012:scalingPolicy:00000000-0000-0000-0000-000000000000:resource/ecs/service/c/s:policyName/p" }
  }
}

variables {
  cluster_name = "c"
  service_name = "s"
  sqs_name     = "turnstile-turns"
}

run "backlog_per_task" {
  assert {
    condition     = aws_appautoscaling_target.tasks.min_capacity == 2 && aws_appautoscaling_target.tasks.max_capacity == 20
    error_message = "There is always a minimum and a maximum."
  }

  assert {
    condition = [
      for one in aws_appautoscaling_policy.backlog.target_tracking_scaling_policy_configuration[0].customized_metric_specification[0].metrics :
      one.id if one.return_data
    ] == ["per_task"]
    error_message = "One number is tracked: messages per task."
  }

  assert {
    condition = toset(flatten([
      for one in aws_appautoscaling_policy.backlog.target_tracking_scaling_policy_configuration[0].customized_metric_specification[0].metrics :
      [for stat in one.metric_stat : stat.metric[0].metric_name]
    ])) == toset(["ApproximateNumberOfMessagesVisible", "ApproximateNumberOfMessagesNotVisible", "RunningTaskCount"])
    error_message = "Messages in hand count as well as those that wait."
  }

  assert {
    condition     = aws_cloudwatch_metric_alarm.oldest.alarm_actions == toset([aws_appautoscaling_policy.oldest.arn])
    error_message = "The age of the oldest adds tasks, and pages nobody."
  }

  assert {
    condition = (
      [for query in aws_cloudwatch_metric_alarm.oldest.metric_query : "${query.metric[0].metric_name} ${query.metric[0].dimensions["QueueName"]}" if query.return_data]
      == ["ApproximateAgeOfOldestMessage turnstile-turns"]
      && aws_cloudwatch_metric_alarm.oldest.threshold == 360
    )
    error_message = "Messages in hand are as old as a turn may take: that alone adds no task."
  }
}

run "by_the_table" {
  variables {
    backlog           = { namespace = "Turnstile/test", queue = "turns" }
    messages_per_task = 30
  }

  assert {
    condition     = aws_appautoscaling_policy.backlog.target_tracking_scaling_policy_configuration[0].target_value == 30
    error_message = "The number that a paused queue has below."
  }

  assert {
    condition = toset(flatten([
      for one in aws_appautoscaling_policy.backlog.target_tracking_scaling_policy_configuration[0].customized_metric_specification[0].metrics :
      [for stat in one.metric_stat : "${stat.metric[0].namespace} ${stat.metric[0].metric_name} ${stat.stat}"]
      ])) == toset([
      "Turnstile/test turns.backlog_ready Maximum", "Turnstile/test turns.backlog_running Maximum", "Turnstile/test turns.paused Maximum",
      "ECS/ContainerInsights RunningTaskCount Average",
    ])
    error_message = "What could be begun and what is being answered, and whether nobody may; of several relays the greatest."
  }

  assert {
    condition = [
      for one in aws_appautoscaling_policy.backlog.target_tracking_scaling_policy_configuration[0].customized_metric_specification[0].metrics :
      one.expression if one.return_data
    ] == ["IF(FILL(paused, 0) > 0, 30, (waiting + in_hand) / IF(FILL(tasks, 0) > 0, tasks, 1))"]
    error_message = "A silent relay does not mean an empty queue, and a paused queue is at its target: it gets no task, and loses none."
  }

  assert {
    condition = (
      { for query in aws_cloudwatch_metric_alarm.oldest.metric_query : query.id => "${query.metric[0].namespace} ${query.metric[0].metric_name}" if !query.return_data }
      == { oldest = "Turnstile/test turns.backlog_oldest_seconds", paused = "Turnstile/test turns.paused" }
      && [for query in aws_cloudwatch_metric_alarm.oldest.metric_query : query.expression if query.return_data] == ["IF(FILL(paused, 0) > 0, 0, oldest)"]
      && aws_cloudwatch_metric_alarm.oldest.threshold == 60
    )
    error_message = "Only turns that nobody has claimed ask for tasks, however long those that are claimed take; those of a paused queue do not."
  }
}

run "a_maximum_below_the_minimum" {
  command = plan

  variables {
    maximum = 1
  }

  expect_failures = [var.maximum]
}
