# What operators look at, queue by queue: the numbers of infra/grafana/turnstile.json that lines of the log and SQS report as well.
# Alarms are shown first, with their states.

data "aws_region" "here" {}

locals {
  # Each series: where its metric is found, its name, its statistic. Several relays report the same number: the greatest counts.
  graphs = [
    { title = "turns that wait", series = [["log", "backlog_due", "Maximum"], ["log", "backlog_ready", "Maximum"], ["log", "backlog_running", "Maximum"]] },
    { title = "oldest turn that waits, standstill, seconds", series = [["log", "backlog_oldest_seconds", "Maximum"], ["log", "standstill_seconds", "Maximum"]] },
    { title = "turns ended", series = [["log", "turn_succeeded", "Sum"], ["log", "turn_failed", "Sum"], ["log", "session_halted", "Sum"], ["log", "turn_canceled", "Sum"]] },
    { title = "waiting until the first start, seconds", series = [["log", "waited_seconds", "p50"], ["log", "waited_seconds", "p95"]] },
    { title = "new for a person: failed, halted, malformed", series = [["log", "failed_lately", "Maximum"], ["log", "halted_lately", "Maximum"], ["log", "message_malformed", "Sum"]] },
    { title = "what waits longest for a person, seconds", series = [["log", "halted_seconds", "Maximum"], ["log", "untouched_seconds", "Maximum"]] },
    { title = "dead letters, and those that failed turns explain", series = [["dlq", "ApproximateNumberOfMessagesVisible", "Maximum"], ["log", "letters", "Maximum"]] },
    { title = "workers: lost, unwell, leases lost, loops blocked; queue paused", series = [["log", "worker_lost", "Sum"], ["log", "worker_unwell", "Maximum"], ["log", "lease_lost", "Sum"], ["log", "loop_blocked", "Sum"], ["log", "paused", "Maximum"]] },
    { title = "messages: waiting and in hand", series = [["main", "ApproximateNumberOfMessagesVisible", "Maximum"], ["main", "ApproximateNumberOfMessagesNotVisible", "Maximum"]] },
    { title = "messages: age of the oldest, seconds", series = [["main", "ApproximateAgeOfOldestMessage", "Maximum"]] },
    { title = "messages: sent, received, deleted", series = [["main", "NumberOfMessagesSent", "Sum"], ["main", "NumberOfMessagesReceived", "Sum"], ["main", "NumberOfMessagesDeleted", "Sum"]] },
    { title = "session locks: attempts, busy, without Redis", series = [["log", "lock_attempt", "Sum"], ["log", "lock_busy", "Sum"], ["log", "lock_unguarded", "Sum"]] },
  ]

  # Only a relay's log has these.
  reported_by_relays = concat(keys(local.backlog_values), keys(local.attention_values), ["worker_lost", "worker_unwell", "standstill_seconds"])

  shown = [for graph in [
    for graph in local.graphs : merge(graph, {
      series = [for one in graph.series : one if one[0] != "log" || local.backlog_is_reported || !contains(local.reported_by_relays, one[1])]
    })
  ] : graph if length(graph.series) > 0]

  alarms_of = {
    for queue in keys(var.queues) : queue => concat(
      [for key in sort(keys(local.plain)) : aws_cloudwatch_metric_alarm.plain[key].arn if local.plain[key].queue == queue],
      [for key in sort(keys(local.computed)) : aws_cloudwatch_metric_alarm.computed[key].arn if local.computed[key].queue == queue],
      [for key, alarm in aws_cloudwatch_metric_alarm.relay_silent : alarm.arn if key == queue],
      [for key, alarm in aws_cloudwatch_metric_alarm.producer_quiet : alarm.arn if key == queue],
      [aws_cloudwatch_metric_alarm.relay_step_failed.arn],
    )
  }

  # Four graphs a row below the queue's alarms.
  alarm_rows = 3
  graph_rows = 6
  queue_rows = local.alarm_rows + local.graph_rows * ceil(length(local.shown) / 4)

  widgets = flatten([
    for place, queue in sort(keys(var.queues)) : concat(
      [jsonencode({
        type       = "alarm", x = 0, y = place * local.queue_rows, width = 24, height = local.alarm_rows
        properties = { title = "${queue}: alarms", alarms = local.alarms_of[queue] }
      })],
      [for number, graph in local.shown : jsonencode({
        type   = "metric"
        x      = number % 4 * 6
        y      = place * local.queue_rows + local.alarm_rows + floor(number / 4) * local.graph_rows
        width  = 6
        height = local.graph_rows
        properties = {
          title  = "${queue}: ${graph.title}"
          region = data.aws_region.here.name
          period = 60
          metrics = [for one in graph.series : concat(
            one[0] == "log" ? [local.namespace, "${queue}.${one[1]}"] : [local.namespaces[one[0]], one[1], "QueueName", local.dimensions[queue][one[0]].QueueName],
            [{ stat = one[2] }],
          )]
        }
      })],
    )
  ])
}

resource "aws_cloudwatch_dashboard" "queues" {
  dashboard_name = var.name
  dashboard_body = jsonencode({ widgets = [for one in local.widgets : jsondecode(one)] })
}
