# What is alarmed on, and who hears of it. Final failures and halted sessions page by what the tables say, which
# relays report each minute (ADR 0024); where no relay's log is known, by the workers' ERROR lines. One failure pages once: as a turn
# that has failed, or as a session that is halted. A dead letter alone pages nobody: its turn's failure has done so already. What
# pages is a dead-letter queue that nobody has touched for a day, and messages on it that no failed turn explains.
#
# CloudWatch notifies when an alarm changes its state, and not again while it lasts. What must be heard until somebody has dealt
# with it (`local.nagging`) is a formula that rests for the last ten minutes of each hour: the alarm goes back to OK, of which
# nobody is notified, and pages again with the next hour. The end of every other alarm goes to the topic that got its beginning.
#
# An alarm has an owner, who is in its tags and its description: the team of the queue's handler, or the operators. Its
# description ends with the page of its runbook. Its threshold is in local.thresholds, or follows from the queue (local.by_queue).

locals {
  page = [aws_sns_topic.alarms["page"].arn]
  tell = [aws_sns_topic.alarms["tell"].arn]

  # Above it (below it: postgres-storage, postgres-memory) an alarm fires. var.thresholds changes single ones.
  thresholds = merge(local.thresholds_known, var.thresholds)
  thresholds_known = {
    turn-failed           = 0    # turns within five minutes
    session-halted        = 0    # sessions within five minutes
    session-still-halted  = 1800 # seconds
    dlq-untouched         = 86400
    message-malformed     = 0 # messages a minute
    relay-step-failed     = 0
    oldest                = var.oldest_seconds
    depth                 = var.depth
    lock-timeouts         = 3 # commands within five minutes
    lock-busy             = 5 # percent
    lock-unavailable      = 0.1
    lock-slow             = 0.1 # seconds
    leases-lost           = 0
    worker-lost           = 0 # worker processes within five minutes
    worker-unwell         = 0
    standstill            = 0
    loop-blocked          = 0  # blocks within five minutes
    service-cpu           = 90 # percent of the tasks' share
    service-memory        = 85
    postgres-cpu          = 80
    postgres-storage      = 10 # percent of the storage
    postgres-memory       = 256 * 1024 * 1024
    postgres-connections  = 400
    redis-memory          = 80 # percent of maxmemory
    redis-cpu             = 80 # percent of the one core that Redis uses
    redis-evictions       = 0
    redis-replication-lag = 10 # seconds
    api-errors            = 5  # percent of the requests
  }

  # One metric, one threshold. `all`: so many periods in a row; with `any`, so many of them.
  plain_alarms = {
    # Metric and statistic: local.from_facts.
    turn-failed = {
      description = "Turns have finally failed in the last five minutes, and halt no session."
      runbook     = "dead-letters.md", owner = "handler"
      source      = "log", period = 60, all = 1, actions = local.page
    }
    session-halted = {
      description = "Sessions were halted in the last five minutes and wait for a person."
      runbook     = "halted-session.md", owner = "handler"
      source      = "log", period = 60, all = 1, actions = local.page
    }
    # By the line alone: it is written before the message goes to the dead-letter queue. There `dlq-unexplained` sees it and pages;
    # where no relay reports what that needs, this pages (local.from_facts).
    message-malformed = {
      description = "A message that nobody understands has arrived."
      runbook     = "poison-pill.md", owner = "operators"
      source      = "log", metric = "message_malformed", statistic = "Sum", period = 60, all = 1, actions = local.tell
    }
    # Metric: local.by_queue.
    oldest = {
      description = "Turns wait too long: too few workers, or workers that do not get on."
      runbook     = "backlog-grows.md", owner = "operators"
      statistic   = "Maximum", period = 60, all = 1, actions = local.page
    }
    # A relay reports it while it lasts, from five minutes on, or twice as long as turns usually take.
    # Three minutes: right after a pause or an outage nothing has begun yet, and a relay that looks then reports that.
    standstill = {
      description = "Turns wait or are put off, and none ends."
      runbook     = "backlog-grows.md", owner = "operators"
      source      = "log", metric = "standstill_seconds", statistic = "Maximum", period = 60, all = 3, actions = local.page
    }
    depth = {
      description = "Many messages wait."
      runbook     = "backlog-grows.md", owner = "operators"
      source      = "main", metric = "ApproximateNumberOfMessagesVisible", statistic = "Maximum", period = 300, all = 3
      actions     = local.tell
    }
    # In three of an hour's five-minute periods: one restart of Redis is in two at most.
    lock-timeouts = {
      description = "Again and again within an hour, lock commands were lost or came too late."
      runbook     = "redis-down.md", owner = "operators"
      source      = "log", metric = "lock_timeout", statistic = "Sum", period = 300, all = 12, any = 3
      actions     = local.tell
    }
    # Threshold: local.by_queue. A worker reports a hold while it lasts, so that an endless one is reported, too.
    lock-held-long = {
      description = "Session locks are held three times as long as usual, or never released."
      runbook     = "deaf-or-silent-worker.md", owner = "operators"
      source      = "log", metric = "lock_held", statistic = "Maximum", period = 300, all = 3, actions = local.tell
    }
    # How long a worker waits for Redis to lock a session. Beyond its time-out of a second at most, lock-timeouts fires.
    lock-slow = {
      description = "On average it takes more than 0.1 s to lock a session."
      runbook     = "redis-down.md", owner = "operators"
      source      = "log", metric = "lock_wait", statistic = "Average", period = 300, all = 3, actions = local.tell
    }
    leases-lost = {
      description = "Claims are taken over while their handlers still run: look for blocked loops and long pauses."
      runbook     = "deaf-or-silent-worker.md", owner = "operators"
      source      = "log", metric = "lease_lost", statistic = "Sum", period = 300, all = 3, actions = local.tell
    }
    # A relay reports each worker once; where no relay's log is known, nothing does.
    worker-lost = {
      description = "Worker processes died or vanished without a shutdown."
      runbook     = "deaf-or-silent-worker.md", owner = "operators"
      source      = "log", metric = "worker_lost", statistic = "Sum", period = 300, all = 1, actions = local.tell
    }
    # Each of these states has lasted when a worker is in it.
    worker-unwell = {
      description = "Workers are silent, blocked, starved, broken or deaf; `turnstile workers` names them."
      runbook     = "deaf-or-silent-worker.md", owner = "operators"
      source      = "log", metric = "worker_unwell", statistic = "Maximum", period = 60, all = 1, actions = local.tell
    }
    loop-blocked = {
      description = "A handler has blocked its worker's event loop for over a second; the line worker.loop_blocked has its stack."
      runbook     = "deaf-or-silent-worker.md", owner = "handler"
      source      = "log", metric = "loop_blocked", statistic = "Sum", period = 300, all = 3, actions = local.tell
    }
  }

  # Several relays report the same number: the greatest counts, never the sum.
  from_facts = local.backlog_is_reported ? {
    turn-failed       = { metric = "failed_lately", statistic = "Maximum" }
    session-halted    = { metric = "halted_lately", statistic = "Maximum" }
    message-malformed = { actions = local.tell }
    } : {
    turn-failed       = { metric = "turn_failed", statistic = "Sum" }
    session-halted    = { metric = "session_halted", statistic = "Sum" }
    message-malformed = { actions = local.page }
  }

  by_queue = {
    for queue, names in var.queues : queue => merge(local.from_facts, {
      # SQS's oldest message may be in flight: a message is deleted after its first settle (ADR 0005), so that under turns of four
      # minutes it is four minutes old, and nobody waits. The table's is unclaimed, and has waited also where it has no message.
      # Without relays that report it: a message has waited for its age minus the longest time of a turn.
      oldest = local.backlog_is_reported ? {
        source = "log", metric = "backlog_oldest_seconds", above = local.thresholds["oldest"]
        } : {
        source = "main", metric = "ApproximateAgeOfOldestMessage", above = names.timeout_seconds + local.thresholds["oldest"]
      }
      # By what is usual, not by the time-out: a hold of three time-outs would have been ended before.
      lock-held-long = { above = 3 * coalesce(names.hold_seconds, var.session_run_seconds) }
    })
  }

  too_small = "A fleet whose slots were all busy for the whole five minutes looks the same: then it is too small."

  # Metric math: `metrics` by id, one expression, of which every one of `all` periods must be above the threshold.
  computed_alarms = {
    # `Untouched` by what is deleted, not by the age of the oldest: a letter that was looked at three times drops out of that
    # metric, and whoever looks (`dlq list --messages`) has not yet done anything. A letter that is being looked at is not visible,
    # so the greatest number of each hour counts: by the smallest, a look a day would keep this silent for ever.
    # By these two where no relay reports the turns themselves; otherwise the alarm of the same name below.
    dlq-untouched = {
      description = "Dead letters have lain for a day, and nobody has redriven or removed one."
      runbook     = "dead-letters.md", owner = "handler"
      expression  = "IF(letters > 0 AND FILL(removed, 0) == 0, 1, 0)", above = 0, period = 3600, all = 24, actions = local.page
      metrics = {
        letters = { source = "dlq", metric = "ApproximateNumberOfMessagesVisible", statistic = "Maximum" }
        removed = { source = "dlq", metric = "NumberOfMessagesDeleted", statistic = "Sum" }
      }
    }
    # `backlog_running` would distinguish busy workers from deaf ones, but turns of workers that are gone are RUNNING for as long as nobody
    # takes them over: with it, the loss of all workers would be the one case that nobody hears of. FILL(paused, 0): a relay that
    # reports nothing must not silence it.
    deaf-workers = {
      description = local.backlog_is_reported ? "Messages wait and nobody receives, though the queue is not paused: the workers are gone, or deaf. ${local.too_small}" : "Messages wait and nobody receives: the workers are gone, or deaf, or the queue is paused. ${local.too_small}"
      runbook     = "deaf-or-silent-worker.md", owner = "operators"
      expression  = "IF(waiting > 0 AND FILL(received, 0) == 0${local.backlog_is_reported ? " AND FILL(paused, 0) == 0" : ""}, 1, 0)"
      above       = 0, period = 60, all = 5, actions = local.page
      metrics = { for id, one in {
        waiting  = { source = "main", metric = "ApproximateNumberOfMessagesVisible", statistic = "Minimum" }
        received = { source = "main", metric = "NumberOfMessagesReceived", statistic = "Sum" }
        paused   = { source = "log", metric = "paused", statistic = "Maximum" }
      } : id => one if id != "paused" || local.backlog_is_reported }
    }
    # Not in a drain, where relays report one: each waiting turn of a session has a message of its own, and its session is taken.
    lock-busy = {
      description = "More than 5 % of the attempts to lock a session found it taken. Bursts in one session do that too."
      runbook     = "doctor.md", owner = "operators"
      expression  = "IF(attempts > 100${local.backlog_is_reported ? " AND FILL(due, 0) <= 100" : ""}, 100 * busy / attempts, 0)"
      above       = local.thresholds["lock-busy"], period = 300, all = 3, actions = local.tell
      metrics = { for id, one in {
        attempts = { source = "log", metric = "lock_attempt", statistic = "Sum" }
        busy     = { source = "log", metric = "lock_busy", statistic = "Sum" }
        due      = { source = "log", metric = "backlog_due", statistic = "Maximum" }
      } : id => one if id != "due" || local.backlog_is_reported }
    }
    lock-unavailable = {
      description = "More than 0.1 % of the attempts to lock were made without Redis. Work goes on, at a higher price for Postgres."
      runbook     = "redis-down.md", owner = "operators"
      expression  = "IF(attempts > 0, 100 * unguarded / attempts, 0)", above = local.thresholds["lock-unavailable"], period = 300, all = 3, actions = local.tell
      metrics = {
        attempts  = { source = "log", metric = "lock_attempt", statistic = "Sum" }
        unguarded = { source = "log", metric = "lock_unguarded", statistic = "Sum" }
      }
    }
  }

  # By what relays report; there are none where no relay's log is known. IF drops the minutes for which its condition has no number;
  # with AND they would count as 0, because MINUTE always has a number, and each line that got lost would be a page more.
  nagging = {
    # The first page is `session-halted`. Half an hour is for whoever has heard it.
    session-still-halted = {
      description = "A session has been halted for too long; pages each hour until somebody lets it go on."
      runbook     = "halted-session.md", owner = "handler"
      expression  = "IF(halted > ${local.thresholds["session-still-halted"]}, IF(MINUTE(halted) < 50, 1, 0), 0)", above = 0, period = 60, all = 1, actions = local.page
      metrics = {
        halted = { source = "log", metric = "halted_seconds", statistic = "Maximum" }
      }
    }
    # Five minutes, because SQS counts approximately. `letters >= 0`: where relays report nothing, or too many have failed to be looked
    # at, nothing is known, and a missing number would count as 0 in a comparison with another.
    dlq-unexplained = {
      description = "Messages lie on the dead-letter queue that no failed turn explains: malformed, or moved there by SQS; pages each hour until they are gone."
      runbook     = "poison-pill.md", owner = "operators"
      expression  = "IF(letters >= 0, IF(messages > letters, IF(MINUTE(letters) < 50, 1, 0), 0), 0)", above = 0, period = 60, all = 5, actions = local.page
      metrics = {
        messages = { source = "dlq", metric = "ApproximateNumberOfMessagesVisible", statistic = "Maximum" }
        letters  = { source = "log", metric = "letters", statistic = "Maximum" }
      }
    }
    # The table says which turn nobody has redriven, and since when; the queue says whether its letter was purged or dropped. A
    # letter that somebody looks at is in flight, and counts.
    dlq-untouched = {
      description = "A turn has failed, and nobody has redriven it or dropped its dead letter for too long; pages each hour until somebody does."
      runbook     = "dead-letters.md", owner = "handler"
      expression  = "IF(untouched > ${local.thresholds["dlq-untouched"]}, IF(messages + looked_at > 0, IF(MINUTE(untouched) < 50, 1, 0), 0), 0)", above = 0, period = 60, all = 1, actions = local.page
      metrics = {
        messages  = { source = "dlq", metric = "ApproximateNumberOfMessagesVisible", statistic = "Maximum" }
        looked_at = { source = "dlq", metric = "ApproximateNumberOfMessagesNotVisible", statistic = "Maximum" }
        untouched = { source = "log", metric = "untouched_seconds", statistic = "Maximum" }
      }
    }
  }

  plain = merge([
    for queue, names in var.queues : {
      for alarm, one in local.plain_alarms : "${queue}/${alarm}" => merge(
        one, { above = lookup(local.thresholds, alarm, null) }, try(local.by_queue[queue][alarm], {}), { queue = queue, alarm = alarm },
      ) if !contains(["standstill", "worker-lost", "worker-unwell"], alarm) || local.backlog_is_reported
    }
  ]...)

  computed = merge([
    for queue, names in var.queues : {
      for alarm, one in merge(local.computed_alarms, local.backlog_is_reported ? local.nagging : {}) : "${queue}/${alarm}" => merge(one, { queue = queue, alarm = alarm })
    }
  ]...)

  # Who mends it: the queue's team mends its handler, and the operators mend the rest.
  owners  = { for queue, names in var.queues : queue => { handler = coalesce(names.owner, var.owner), operators = var.owner } }
  resting = local.backlog_is_reported ? keys(local.nagging) : []

  # Where a metric is found: the queue's, its dead-letter queue's, or counted from the log.
  namespaces = { main = "AWS/SQS", dlq = "AWS/SQS", log = local.namespace }
  dimensions = {
    for queue, names in var.queues : queue => {
      main = { QueueName = names.sqs_name }
      dlq  = { QueueName = names.dlq_name }
      log  = null
    }
  }
}

resource "aws_cloudwatch_metric_alarm" "plain" {
  for_each = local.plain

  alarm_name          = "${var.name}-${each.value.queue}-${each.value.alarm}"
  alarm_description   = "${each.value.description} Owner: ${local.owners[each.value.queue][each.value.owner]}. Runbook: ${var.runbooks}/${each.value.runbook}"
  namespace           = local.namespaces[each.value.source]
  metric_name         = each.value.source == "log" ? "${each.value.queue}.${each.value.metric}" : each.value.metric
  dimensions          = local.dimensions[each.value.queue][each.value.source]
  statistic           = each.value.statistic
  period              = each.value.period
  evaluation_periods  = each.value.all
  datapoints_to_alarm = try(each.value.any, null)
  threshold           = each.value.above
  comparison_operator = "GreaterThanThreshold"
  treat_missing_data  = "notBreaching"
  alarm_actions       = each.value.actions
  ok_actions          = each.value.actions
  tags                = merge(var.tags, { owner = local.owners[each.value.queue][each.value.owner] })
}

resource "aws_cloudwatch_metric_alarm" "computed" {
  for_each = local.computed

  alarm_name          = "${var.name}-${each.value.queue}-${each.value.alarm}"
  alarm_description   = "${each.value.description} Owner: ${local.owners[each.value.queue][each.value.owner]}. Runbook: ${var.runbooks}/${each.value.runbook}"
  evaluation_periods  = each.value.all
  threshold           = each.value.above
  comparison_operator = "GreaterThanThreshold"
  treat_missing_data  = "notBreaching"
  alarm_actions       = each.value.actions
  # A rest is not an end, and nobody is notified that it is over.
  ok_actions = contains(local.resting, each.value.alarm) ? [] : each.value.actions
  tags       = merge(var.tags, { owner = local.owners[each.value.queue][each.value.owner] })

  metric_query {
    id          = "judged"
    label       = each.value.alarm
    expression  = each.value.expression
    return_data = true
  }

  dynamic "metric_query" {
    for_each = each.value.metrics

    content {
      id = metric_query.key
      metric {
        namespace   = local.namespaces[metric_query.value.source]
        metric_name = metric_query.value.source == "log" ? "${each.value.queue}.${metric_query.value.metric}" : metric_query.value.metric
        dimensions  = local.dimensions[each.value.queue][metric_query.value.source]
        stat        = metric_query.value.statistic
        period      = each.value.period
      }
    }
  }
}

# One for all queues: a relay serves them all.
resource "aws_cloudwatch_metric_alarm" "relay_step_failed" {
  alarm_name          = "${var.name}-relay-step-failed"
  alarm_description   = "Postgres refuses a row or a statement of a relay. Owner: ${var.owner}. Runbook: ${var.runbooks}/relay-silent.md"
  namespace           = local.namespace
  metric_name         = "relay_step_failed"
  statistic           = "Sum"
  period              = 60
  evaluation_periods  = 1
  threshold           = local.thresholds["relay-step-failed"]
  comparison_operator = "GreaterThanThreshold"
  treat_missing_data  = "notBreaching"
  alarm_actions       = local.page
  ok_actions          = local.page
  tags                = merge(var.tags, { owner = var.owner })
}

# The two alarms for which no news is bad news. A relay reports the backlog once a minute, an empty one too. Where it reports nothing it
# is gone, or cannot read the table: what is due later, retried or lost is sent by nobody, and workers are scaled by nothing.
resource "aws_cloudwatch_metric_alarm" "relay_silent" {
  for_each = local.backlog_is_reported ? var.queues : {}

  alarm_name          = "${var.name}-${each.key}-relay-silent"
  alarm_description   = "No relay has reported this queue's backlog for five minutes or longer. Owner: ${var.owner}. Runbook: ${var.runbooks}/relay-silent.md"
  namespace           = local.namespace
  metric_name         = "${each.key}.backlog_due"
  statistic           = "SampleCount"
  period              = 60
  evaluation_periods  = 5
  threshold           = 1
  comparison_operator = "LessThanThreshold"
  treat_missing_data  = "breaching"
  alarm_actions       = local.page
  ok_actions          = local.page
  tags                = merge(var.tags, { owner = var.owner })
}

# SQS publishes nothing for a queue that nobody has used for six hours.
resource "aws_cloudwatch_metric_alarm" "producer_quiet" {
  for_each = var.quiet_minutes == null ? {} : var.queues

  alarm_name          = "${var.name}-${each.key}-producer-quiet"
  alarm_description   = "Nothing was sent for ${var.quiet_minutes} minutes. Owner: ${var.owner}. Runbook: ${var.runbooks}/sqs-throttled.md"
  namespace           = "AWS/SQS"
  metric_name         = "NumberOfMessagesSent"
  dimensions          = { QueueName = each.value.sqs_name }
  statistic           = "Sum"
  period              = 300
  evaluation_periods  = ceil(var.quiet_minutes / 5)
  threshold           = 1
  comparison_operator = "LessThanThreshold"
  treat_missing_data  = "breaching"
  alarm_actions       = local.tell
  ok_actions          = local.tell
  tags                = merge(var.tags, { owner = var.owner })
}
