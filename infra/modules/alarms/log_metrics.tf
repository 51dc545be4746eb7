# Metrics that are counted from the workers' log lines. The patterns are tested against what the product writes
# (tests/infra/check_log_patterns.py); an event that is renamed there breaks that test and not the alarm in silence.

locals {
  namespace = "Turnstile/${var.name}"

  # value: what one line adds, a number or a field of the line.
  log_metrics = {
    # One line for each turn that finally failed, and never for a retry: the first, or the second if it halts its session.
    turn_failed    = { pattern = "{ ($.event = \"turn.failed\") && ($.level = \"error\") }", value = "1" }
    session_halted = { pattern = "{ ($.event = \"turn.halted_session\") && ($.level = \"error\") }", value = "1" }
    # With turn_failed and session_halted, every turn that a worker has ended.
    turn_succeeded = { pattern = "{ $.event = \"turn.succeeded\" }", value = "1" }
    turn_canceled  = { pattern = "{ $.event = \"turn.canceled\" }", value = "1" }
    # How long a turn waited until it first began. The line of a later attempt lacks the field.
    waited_seconds = { pattern = "{ ($.event = \"turn.claimed\") && ($.waited_seconds = *) }", value = "$.waited_seconds" }
    # One line for each receive of a message that nobody understands, before it goes to the dead-letter queue.
    message_malformed = { pattern = "{ ($.event = \"message.malformed\") && ($.level = \"error\") }", value = "1" }
    # Attempts to lock, how many found the session taken, how many were made without Redis.
    lock_attempt   = { pattern = "{ $.event = \"session.lock\" }", value = "1" }
    lock_busy      = { pattern = "{ ($.event = \"session.lock\") && ($.result = \"busy\") }", value = "1" }
    lock_unguarded = { pattern = "{ ($.event = \"session.lock\") && ($.result = \"unguarded\") }", value = "1" }
    lock_wait      = { pattern = "{ ($.event = \"session.lock\") && ($.result = \"locked\") }", value = "$.seconds" }
    # The second while the hold lasts, once a minute.
    lock_held = { pattern = "{ ($.event = \"session.unlock\") || ($.event = \"session.held\") }", value = "$.held_seconds" }
    # A lock command that Redis did not answer in time, or a lock that was gone when it was to be extended.
    lock_timeout = {
      pattern = "{ ($.event = \"lock.redis_away\") || ($.event = \"heartbeat.lock_lost\") || ($.event = \"lock.redis_refuses\") || ($.event = \"redis.node_away\") }"
      value   = "1"
    }
    # A claim that another worker took over while its handler ran: work that was wasted.
    lease_lost = { pattern = "{ $.event = \"heartbeat.superseded\" }", value = "1" }
    # A handler that blocks the event loop. Its own turn and the worker's other turns stand still meanwhile.
    loop_blocked = { pattern = "{ $.event = \"worker.loop_blocked\" }", value = "1" }
  }

  filters = merge([
    for queue, names in var.queues : {
      for metric, one in local.log_metrics : "${queue}/${metric}" => merge(one, { queue = queue, metric = metric, group = names.worker_log_group })
    }
  ]...)
}

# The backlog as the table has it (ADR 0025): one line a minute and queue, from every relay. What reads it takes the maximum.
locals {
  backlog_is_reported = length(var.relay_log_groups) > 0

  backlog_patterns = { for queue in keys(var.queues) : queue => "{ ($.event = \"queue.backlog\") && ($.queue = \"${queue}\") }" }
  backlog_values = {
    backlog_due            = "$.due"
    backlog_ready          = "$.ready"
    backlog_running        = "$.running"
    backlog_oldest_seconds = "$.oldest_seconds"
    paused                 = "$.paused"
  }

  backlog_filters = merge(flatten([
    for queue in keys(var.queues) : [
      for group in var.relay_log_groups : {
        for metric, value in local.backlog_values : "${queue}/${metric}/${group}" => {
          queue = queue, metric = metric, value = value, group = group
        }
      }
    ]
  ])...)

  # What waits for a person, as the tables have it (ADR 0024), reported along with the backlog.
  attention_patterns = { for queue in keys(var.queues) : queue => "{ ($.event = \"queue.attention\") && ($.queue = \"${queue}\") }" }
  attention_values = {
    failed_lately     = "$.failed_lately"
    halted_lately     = "$.halted_lately"
    halted_seconds    = "$.halted_seconds"
    letters           = "$.letters"
    untouched_seconds = "$.untouched_seconds"
  }

  attention_filters = merge(flatten([
    for queue in keys(var.queues) : [
      for group in var.relay_log_groups : {
        for metric, value in local.attention_values : "${queue}/${metric}/${group}" => {
          queue = queue, metric = metric, value = value, group = group
        }
      }
    ]
  ])...)
}

resource "aws_cloudwatch_log_metric_filter" "attention" {
  for_each = local.attention_filters

  name           = "${var.name}-${each.value.queue}-${replace(each.value.metric, "_", "-")}"
  log_group_name = each.value.group
  pattern        = local.attention_patterns[each.value.queue]

  # No default: without a report nothing is known, and an alarm must not be called off for it.
  metric_transformation {
    namespace = local.namespace
    name      = "${each.value.queue}.${each.value.metric}"
    value     = each.value.value
  }
}

resource "aws_cloudwatch_log_metric_filter" "backlog" {
  for_each = local.backlog_filters

  name           = "${var.name}-${each.value.queue}-${replace(each.value.metric, "_", "-")}"
  log_group_name = each.value.group
  pattern        = local.backlog_patterns[each.value.queue]

  metric_transformation {
    namespace = local.namespace
    name      = "${each.value.queue}.${each.value.metric}"
    value     = each.value.value
  }
}

# The relay that first finds a worker gone says so, once.
locals {
  lost_patterns = { for queue in keys(var.queues) : queue => "{ ($.event = \"worker.lost\") && ($.queue = \"${queue}\") }" }
}

resource "aws_cloudwatch_log_metric_filter" "worker_lost" {
  for_each = merge([
    for queue in keys(var.queues) : { for group in var.relay_log_groups : "${queue}/${group}" => { queue = queue, group = group } }
  ]...)

  name           = "${var.name}-${each.value.queue}-worker-lost"
  log_group_name = each.value.group
  pattern        = local.lost_patterns[each.value.queue]

  metric_transformation {
    namespace     = local.namespace
    name          = "${each.value.queue}.worker_lost"
    value         = "1"
    default_value = "0"
  }
}

# Once a minute and queue, from every relay: how many workers are silent, blocked, starved, broken or deaf; and how long a standstill lasts, while
# it does.
locals {
  workers_patterns    = { for queue in keys(var.queues) : queue => "{ ($.event = \"queue.workers\") && ($.queue = \"${queue}\") }" }
  standstill_patterns = { for queue in keys(var.queues) : queue => "{ ($.event = \"queue.standstill\") && ($.queue = \"${queue}\") }" }

  state_filters = merge(flatten([
    for queue in keys(var.queues) : [
      for group in var.relay_log_groups : {
        "${queue}/worker_unwell/${group}"      = { queue = queue, metric = "worker_unwell", value = "$.unwell", pattern = local.workers_patterns[queue], group = group }
        "${queue}/standstill_seconds/${group}" = { queue = queue, metric = "standstill_seconds", value = "$.seconds", pattern = local.standstill_patterns[queue], group = group }
      }
    ]
  ])...)
}

resource "aws_cloudwatch_log_metric_filter" "state" {
  for_each = local.state_filters

  name           = "${var.name}-${each.value.queue}-${replace(each.value.metric, "_", "-")}"
  log_group_name = each.value.group
  pattern        = each.value.pattern

  metric_transformation {
    namespace = local.namespace
    name      = "${each.value.queue}.${each.value.metric}"
    value     = each.value.value
  }
}

# A statement of a relay was refused, also of a relay in a worker's process. A relay serves all queues, so that its line names none.
locals {
  relay_step_failed = "{ ($.event = \"relay.step_failed\") && ($.level = \"error\") }"
  all_log_groups    = toset(concat(var.relay_log_groups, [for names in values(var.queues) : names.worker_log_group]))

  filters_of_a_worker_queue = length(local.log_metrics)
  filters_of_a_relay_queue  = length(local.backlog_values) + length(local.attention_values) + 3 # worker_lost, worker_unwell, standstill_seconds

  filters_by_group = {
    for group in local.all_log_groups : group => (
      length([for names in values(var.queues) : names if names.worker_log_group == group]) * local.filters_of_a_worker_queue
      + (contains(var.relay_log_groups, group) ? length(var.queues) * local.filters_of_a_relay_queue : 0)
      + 1 # relay_step_failed
    )
  }
}

resource "aws_cloudwatch_log_metric_filter" "relay_step_failed" {
  for_each = local.all_log_groups

  name           = "${var.name}-relay-step-failed"
  log_group_name = each.key
  pattern        = local.relay_step_failed

  metric_transformation {
    namespace     = local.namespace
    name          = "relay_step_failed"
    value         = "1"
    default_value = "0"
  }

  # AWS would refuse the hundred and first filter in the middle of an apply.
  lifecycle {
    precondition {
      condition     = local.filters_by_group[each.key] <= 100
      error_message = <<-EOT
        The log group ${each.key} would get ${local.filters_by_group[each.key]} metric filters; AWS allows 100 for one log group.
        A queue takes ${local.filters_of_a_relay_queue} in a relay's log group, and ${local.filters_of_a_worker_queue} in its workers'. Run relays as a service with a log group of its own.
        For more than ${floor(99 / local.filters_of_a_relay_queue)} queues, run a second such service: each relay reports all queues, and another instance of this module watches
        the other queues by that relay's log group.
      EOT
    }
  }
}

resource "aws_cloudwatch_log_metric_filter" "event" {
  for_each = local.filters

  name           = "${var.name}-${each.value.queue}-${replace(each.value.metric, "_", "-")}"
  log_group_name = each.value.group
  pattern        = each.value.pattern

  metric_transformation {
    namespace = local.namespace
    # The queue is in the name: a dimension would need the queue as a field of every line, and costs a metric all the same.
    name  = "${each.value.queue}.${each.value.metric}"
    value = each.value.value
    # Nothing where nothing was logged; a count starts at 0, a duration must not.
    default_value = each.value.value == "1" ? "0" : null
  }
}
