# The formulas of the computed alarms as they are written; tests/infra/check_alarm_formulas.py evaluates them.

mock_provider "aws" {
  mock_data "aws_region" {
    defaults = { name = "eu-central-1" }
  }
  mock_resource "aws_sns_topic" {
    defaults = { arn = "arn:aws:sns:eu-central-1:123456789012:test" }
  }
}

variables {
  name = "test"
  queues = {
    turns = { sqs_name = "turnstile-turns", dlq_name = "turnstile-turns-dlq", worker_log_group = "/turnstile/worker" }
  }
}

run "what_is_computed" {
  assert {
    condition = [for query in aws_cloudwatch_metric_alarm.computed["turns/dlq-untouched"].metric_query : query.expression if query.id == "judged"] == [
      "IF(letters > 0 AND FILL(removed, 0) == 0, 1, 0)"
    ]
    error_message = "Dead letters lie there, and none is removed."
  }

  assert {
    condition = toset([
      for query in aws_cloudwatch_metric_alarm.computed["turns/dlq-untouched"].metric_query :
      "${query.metric[0].metric_name} ${query.metric[0].stat} ${query.metric[0].dimensions["QueueName"]}" if query.id != "judged"
      ]) == toset([
      "ApproximateNumberOfMessagesVisible Maximum turnstile-turns-dlq", "NumberOfMessagesDeleted Sum turnstile-turns-dlq",
    ])
    error_message = "It looks at the dead-letter queue, and a letter that somebody looks at for a minute does not count as gone."
  }

  assert {
    condition     = aws_cloudwatch_metric_alarm.computed["turns/dlq-untouched"].evaluation_periods == 24
    error_message = "For a day, hour by hour."
  }

  assert {
    condition = toset(flatten([
      for name, alarm in merge(aws_cloudwatch_metric_alarm.computed, aws_cloudwatch_metric_alarm.plain) : [name]
      if strcontains(jsonencode([alarm.dimensions, alarm.metric_query]), "turnstile-turns-dlq")
    ])) == toset(["turns/dlq-untouched"])
    error_message = "No other alarm looks at dead letters: their ERROR line has paged already."
  }

  assert {
    condition = [for query in aws_cloudwatch_metric_alarm.computed["turns/deaf-workers"].metric_query : query.expression if query.id == "judged"] == [
      "IF(waiting > 0 AND FILL(received, 0) == 0, 1, 0)"
    ]
    error_message = "Messages wait and nobody receives."
  }

  assert {
    condition     = alltrue([for alarm in aws_cloudwatch_metric_alarm.computed : length([for query in alarm.metric_query : query if query.return_data == true]) == 1])
    error_message = "One number is judged."
  }

  assert {
    condition     = strcontains(aws_cloudwatch_dashboard.queues.dashboard_body, "turnstile-turns-dlq")
    error_message = "The depth of the dead-letter queue is shown."
  }

  assert {
    condition     = strcontains(aws_cloudwatch_metric_alarm.computed["turns/deaf-workers"].alarm_description, "or the queue is paused")
    error_message = "Where no relay reports a pause, whoever is paged reads that it may be one."
  }
}

run "by_the_lines_of_the_workers" {
  assert {
    condition = {
      for name in ["turn-failed", "session-halted", "message-malformed"] :
      name => "${aws_cloudwatch_metric_alarm.plain["turns/${name}"].metric_name} ${aws_cloudwatch_metric_alarm.plain["turns/${name}"].statistic}"
      } == {
      turn-failed       = "turns.turn_failed Sum"
      session-halted    = "turns.session_halted Sum"
      message-malformed = "turns.message_malformed Sum"
    }
    error_message = "Where no relay's log is known, a failure is known by its line alone."
  }

  assert {
    condition     = aws_cloudwatch_metric_alarm.plain["turns/message-malformed"].alarm_actions == toset([aws_sns_topic.alarms["page"].arn])
    error_message = "No relay reports which messages failed turns explain: then the line pages."
  }

  assert {
    condition     = !contains(keys(aws_cloudwatch_metric_alarm.computed), "turns/session-still-halted") && !contains(keys(aws_cloudwatch_metric_alarm.computed), "turns/dlq-unexplained")
    error_message = "They evaluate what relays report."
  }
}

run "by_what_the_tables_say" {
  variables {
    relay_log_groups = ["/turnstile/relay", "/turnstile/worker"]
  }

  assert {
    condition = {
      for name in ["turn-failed", "session-halted", "message-malformed"] :
      name => "${aws_cloudwatch_metric_alarm.plain["turns/${name}"].metric_name} ${aws_cloudwatch_metric_alarm.plain["turns/${name}"].statistic}"
      } == {
      turn-failed       = "turns.failed_lately Maximum"
      session-halted    = "turns.halted_lately Maximum"
      message-malformed = "turns.message_malformed Sum"
    }
    error_message = "A worker that is killed after its commit writes no line; several relays report the same."
  }

  assert {
    condition = {
      for filter in aws_cloudwatch_log_metric_filter.attention :
      "${filter.log_group_name} ${filter.metric_transformation[0].name}" => "${filter.metric_transformation[0].value} ${coalesce(filter.metric_transformation[0].default_value, "none")}"
      } == merge([for group in ["/turnstile/relay", "/turnstile/worker"] : {
        "${group} turns.failed_lately"     = "$.failed_lately none"
        "${group} turns.halted_lately"     = "$.halted_lately none"
        "${group} turns.halted_seconds"    = "$.halted_seconds none"
        "${group} turns.letters"           = "$.letters none"
        "${group} turns.untouched_seconds" = "$.untouched_seconds none"
    }]...)
    error_message = "Each number of the relays' line is a metric of its queue, and without a line there is no number."
  }

  assert {
    condition = {
      for name in ["session-still-halted", "dlq-unexplained", "dlq-untouched"] :
      name => [for query in aws_cloudwatch_metric_alarm.computed["turns/${name}"].metric_query : query.expression if query.id == "judged"][0]
      } == {
      session-still-halted = "IF(halted > 1800, IF(MINUTE(halted) < 50, 1, 0), 0)"
      dlq-unexplained      = "IF(letters >= 0, IF(messages > letters, IF(MINUTE(letters) < 50, 1, 0), 0), 0)"
      dlq-untouched        = "IF(untouched > 86400, IF(messages + looked_at > 0, IF(MINUTE(untouched) < 50, 1, 0), 0), 0)"
    }
    error_message = "They rest once an hour, and page again."
  }

  assert {
    condition = alltrue([for name in ["plain/turn-failed", "plain/session-halted", "computed/session-still-halted", "computed/dlq-unexplained", "computed/dlq-untouched"] :
      merge({ for key, one in aws_cloudwatch_metric_alarm.plain : "plain/${key}" => one }, { for key, one in aws_cloudwatch_metric_alarm.computed : "computed/${key}" => one })[replace(name, "/", "/turns/")].alarm_actions == toset([aws_sns_topic.alarms["page"].arn])
    ])
    error_message = "Each of them pages."
  }

  assert {
    condition     = aws_cloudwatch_metric_alarm.plain["turns/message-malformed"].alarm_actions == toset([aws_sns_topic.alarms["tell"].arn])
    error_message = "The message is on the dead-letter queue, where dlq-unexplained sees it: one of the two pages."
  }
}

run "the_backlog" {
  variables {
    relay_log_groups = ["/turnstile/relay"]
  }

  assert {
    condition = {
      for filter in aws_cloudwatch_log_metric_filter.backlog :
      "${filter.metric_transformation[0].namespace} ${filter.metric_transformation[0].name}" => filter.metric_transformation[0].value
      } == {
      "Turnstile/test turns.backlog_due"            = "$.due"
      "Turnstile/test turns.backlog_ready"          = "$.ready"
      "Turnstile/test turns.backlog_running"        = "$.running"
      "Turnstile/test turns.backlog_oldest_seconds" = "$.oldest_seconds"
      "Turnstile/test turns.paused"                 = "$.paused"
    }
    error_message = "Each number of the relay's line is a metric of its queue."
  }

  assert {
    condition     = alltrue([for filter in aws_cloudwatch_log_metric_filter.backlog : filter.metric_transformation[0].default_value == null])
    error_message = "Without a line there is no number: a 0 would take workers away."
  }
}

run "a_pause_pages_nobody" {
  variables {
    relay_log_groups = ["/turnstile/relay"]
  }

  assert {
    condition = {
      for query in aws_cloudwatch_metric_alarm.computed["turns/deaf-workers"].metric_query :
      query.id => query.id == "judged" ? query.expression : "${query.metric[0].namespace} ${query.metric[0].metric_name} ${query.metric[0].stat}"
      } == {
      judged   = "IF(waiting > 0 AND FILL(received, 0) == 0 AND FILL(paused, 0) == 0, 1, 0)"
      waiting  = "AWS/SQS ApproximateNumberOfMessagesVisible Minimum"
      received = "AWS/SQS NumberOfMessagesReceived Sum"
      paused   = "Turnstile/test turns.paused Maximum"
    }
    error_message = "Workers of a paused queue receive nothing because operators want it so. A relay that is silent hides no deaf worker."
  }
}

run "a_relay_that_is_silent" {
  variables {
    relay_log_groups = ["/turnstile/relay"]
  }

  assert {
    condition = (
      aws_cloudwatch_metric_alarm.relay_silent["turns"].metric_name == "turns.backlog_due"
      && aws_cloudwatch_metric_alarm.relay_silent["turns"].namespace == "Turnstile/test"
      && aws_cloudwatch_metric_alarm.relay_silent["turns"].statistic == "SampleCount"
    )
    error_message = "The relay's lines are counted."
  }

  assert {
    condition = (
      aws_cloudwatch_metric_alarm.relay_silent["turns"].comparison_operator == "LessThanThreshold"
      && aws_cloudwatch_metric_alarm.relay_silent["turns"].threshold == 1
      && aws_cloudwatch_metric_alarm.relay_silent["turns"].treat_missing_data == "breaching"
      && aws_cloudwatch_metric_alarm.relay_silent["turns"].period * aws_cloudwatch_metric_alarm.relay_silent["turns"].evaluation_periods == 300
    )
    error_message = "Five minutes without one are news."
  }

  assert {
    condition     = aws_cloudwatch_metric_alarm.relay_silent["turns"].alarm_actions == toset([aws_sns_topic.alarms["page"].arn])
    error_message = "Nobody else sends what is due: it pages."
  }
}

run "no_relay_to_listen_to" {
  assert {
    condition     = !contains(keys(aws_cloudwatch_metric_alarm.plain), "turns/worker-lost")
    error_message = "Only relays report lost workers."
  }

  assert {
    condition     = length(aws_cloudwatch_metric_alarm.relay_silent) == 0
    error_message = "Without the relay's log nothing is known of it."
  }
}

run "the_oldest_by_the_table" {
  variables {
    relay_log_groups = ["/turnstile/relay"]
  }

  assert {
    condition = (
      aws_cloudwatch_metric_alarm.plain["turns/oldest"].metric_name == "turns.backlog_oldest_seconds"
      && aws_cloudwatch_metric_alarm.plain["turns/oldest"].namespace == "Turnstile/test"
      && aws_cloudwatch_metric_alarm.plain["turns/oldest"].dimensions == null
      && aws_cloudwatch_metric_alarm.plain["turns/oldest"].threshold == 300
    )
    error_message = "What nobody has claimed waits; a turn that is being answered does not."
  }
}

run "the_oldest_by_sqs" {
  variables {
    queues = {
      turns = { sqs_name = "turnstile-turns", dlq_name = "turnstile-turns-dlq", worker_log_group = "/turnstile/worker", timeout_seconds = 900 }
    }
  }

  assert {
    condition = (
      aws_cloudwatch_metric_alarm.plain["turns/oldest"].metric_name == "ApproximateAgeOfOldestMessage"
      && aws_cloudwatch_metric_alarm.plain["turns/oldest"].dimensions["QueueName"] == "turnstile-turns"
      && aws_cloudwatch_metric_alarm.plain["turns/oldest"].threshold == 1200
    )
    error_message = "SQS counts messages in hand: they may be as old as a turn may take."
  }
}

run "a_lock_is_held_for_three_times_the_usual" {
  variables {
    queues = {
      turns = { sqs_name = "t", dlq_name = "t-dlq", worker_log_group = "/turnstile/worker", timeout_seconds = 900 }
      slow  = { sqs_name = "s", dlq_name = "s-dlq", worker_log_group = "/turnstile/worker", timeout_seconds = 900, hold_seconds = 120 }
    }
  }

  assert {
    condition     = aws_cloudwatch_metric_alarm.plain["turns/lock-held-long"].threshold == 90
    error_message = "A session run ends after half a minute, whatever the time-out: no hold lasts for three time-outs."
  }

  assert {
    condition     = aws_cloudwatch_metric_alarm.plain["slow/lock-held-long"].threshold == 360
    error_message = "Where turns usually take two minutes, so do holds."
  }

  assert {
    condition     = strcontains(aws_cloudwatch_log_metric_filter.event["turns/lock_held"].pattern, "session.held")
    error_message = "A hold without an end has no line but this."
  }
}

run "thresholds_and_owners" {
  variables {
    relay_log_groups = ["/turnstile/relay"]
    owner            = "platform"
    runbooks         = "https://wiki.example/turnstile"
    thresholds       = { turn-failed = 5, dlq-untouched = 3600, lock-busy = 20, oldest = 60 }
    queues = {
      turns  = { sqs_name = "t", dlq_name = "t-dlq", worker_log_group = "/turnstile/worker", owner = "chat" }
      others = { sqs_name = "o", dlq_name = "o-dlq", worker_log_group = "/turnstile/worker" }
    }
  }

  assert {
    condition = [
      aws_cloudwatch_metric_alarm.plain["turns/turn-failed"].threshold, aws_cloudwatch_metric_alarm.plain["turns/oldest"].threshold,
      aws_cloudwatch_metric_alarm.plain["turns/session-halted"].threshold, aws_cloudwatch_metric_alarm.computed["turns/lock-busy"].threshold,
    ] == [5, 60, 0, 20]
    error_message = "A threshold is the default, or the one that is given."
  }

  assert {
    condition = [for query in aws_cloudwatch_metric_alarm.computed["turns/dlq-untouched"].metric_query : query.expression if query.id == "judged"] == [
      "IF(untouched > 3600, IF(messages + looked_at > 0, IF(MINUTE(untouched) < 50, 1, 0), 0), 0)"
    ]
    error_message = "Also where it stands in a formula."
  }

  assert {
    condition = {
      for name in ["turns/turn-failed", "others/turn-failed", "turns/worker-lost"] : name => aws_cloudwatch_metric_alarm.plain[name].tags.owner
    } == { "turns/turn-failed" = "chat", "others/turn-failed" = "platform", "turns/worker-lost" = "platform" }
    error_message = "Failed turns are the handler's team's, workers the operators'."
  }

  assert {
    condition     = aws_cloudwatch_metric_alarm.plain["turns/turn-failed"].alarm_description == "Turns have finally failed in the last five minutes, and halt no session. Owner: chat. Runbook: https://wiki.example/turnstile/dead-letters.md"
    error_message = "Whoever is paged reads whose it is, and where to look."
  }

  assert {
    condition = alltrue([
      for one in concat(values(aws_cloudwatch_metric_alarm.plain), values(aws_cloudwatch_metric_alarm.computed), values(aws_cloudwatch_metric_alarm.relay_silent), values(aws_cloudwatch_metric_alarm.producer_quiet), [aws_cloudwatch_metric_alarm.relay_step_failed]) :
      can(regex(" Owner: \\w+\\. Runbook: https://wiki.example/turnstile/[a-z-]+\\.md$", one.alarm_description)) && one.tags.owner != ""
    ])
    error_message = "Every alarm has an owner and a runbook."
  }
}

run "a_threshold_of_no_alarm" {
  command = plan

  variables {
    thresholds = { turns-failed = 5 }
  }

  expect_failures = [var.thresholds]
}

run "the_topic_hears_the_end_of_an_alarm" {
  variables {
    relay_log_groups = ["/turnstile/relay"]
  }

  assert {
    condition = alltrue([
      for one in concat(values(aws_cloudwatch_metric_alarm.plain), values(aws_cloudwatch_metric_alarm.relay_silent), values(aws_cloudwatch_metric_alarm.producer_quiet), [aws_cloudwatch_metric_alarm.relay_step_failed]) : one.ok_actions == one.alarm_actions
    ])
    error_message = "Whoever heard the beginning hears the end."
  }

  assert {
    condition = toset([for name, one in aws_cloudwatch_metric_alarm.computed : name if one.ok_actions != one.alarm_actions]) == toset([
      "turns/session-still-halted", "turns/dlq-unexplained", "turns/dlq-untouched",
    ])
    error_message = "A rest in each hour is not an end."
  }
}

run "lost_workers" {
  variables {
    relay_log_groups = ["/turnstile/relay"]
  }

  assert {
    condition = (
      aws_cloudwatch_metric_alarm.plain["turns/worker-lost"].metric_name == "turns.worker_lost"
      && aws_cloudwatch_log_metric_filter.worker_lost["turns//turnstile/relay"].pattern == "{ ($.event = \"worker.lost\") && ($.queue = \"turns\") }"
      && aws_cloudwatch_log_metric_filter.worker_lost["turns//turnstile/relay"].metric_transformation[0].name == "turns.worker_lost"
    )
    error_message = "A relay reports them."
  }
}

run "workers_that_are_unwell" {
  variables {
    relay_log_groups = ["/turnstile/relay"]
  }

  assert {
    condition = (
      aws_cloudwatch_metric_alarm.plain["turns/worker-unwell"].metric_name == "turns.worker_unwell"
      && aws_cloudwatch_metric_alarm.plain["turns/worker-unwell"].statistic == "Maximum"
      && aws_cloudwatch_log_metric_filter.state["turns/worker_unwell//turnstile/relay"].pattern == "{ ($.event = \"queue.workers\") && ($.queue = \"turns\") }"
      && aws_cloudwatch_log_metric_filter.state["turns/worker_unwell//turnstile/relay"].metric_transformation[0].value == "$.unwell"
    )
    error_message = "Several relays report the same: the greatest counts."
  }
}

run "one_restart_of_redis_sets_off_no_alarm" {
  assert {
    condition = [
      for name in ["period", "evaluation_periods", "datapoints_to_alarm", "threshold"] : aws_cloudwatch_metric_alarm.plain["turns/lock-timeouts"][name]
    ] == [300, 12, 3, 3]
    error_message = "It is in two periods of five minutes at most."
  }

  assert {
    condition     = alltrue([for name, one in aws_cloudwatch_metric_alarm.plain : one.datapoints_to_alarm == null if name != "turns/lock-timeouts"])
    error_message = "For all others, every period counts."
  }
}

run "a_standstill" {
  variables {
    relay_log_groups = ["/turnstile/relay"]
  }

  assert {
    condition = (
      aws_cloudwatch_metric_alarm.plain["turns/standstill"].metric_name == "turns.standstill_seconds"
      && aws_cloudwatch_metric_alarm.plain["turns/standstill"].statistic == "Maximum"
      && aws_cloudwatch_metric_alarm.plain["turns/standstill"].alarm_actions == toset([aws_sns_topic.alarms["page"].arn])
      && aws_cloudwatch_log_metric_filter.state["turns/standstill_seconds//turnstile/relay"].metric_transformation[0].value == "$.seconds"
    )
    error_message = "Nobody is answered: it pages, by what relays report while it lasts."
  }

  assert {
    condition     = aws_cloudwatch_metric_alarm.plain["turns/standstill"].evaluation_periods == 3
    error_message = "After a pause, relays may report it within one minute and the next."
  }
}

run "a_failed_step_of_a_relay" {
  variables {
    relay_log_groups = ["/turnstile/relay"]
    queues = {
      turns  = { sqs_name = "t", dlq_name = "t-dlq", worker_log_group = "/turnstile/worker" }
      others = { sqs_name = "o", dlq_name = "o-dlq", worker_log_group = "/turnstile/worker" }
    }
  }

  assert {
    condition = toset([for filter in aws_cloudwatch_log_metric_filter.relay_step_failed : "${filter.log_group_name} ${filter.metric_transformation[0].name}"]) == toset([
      "/turnstile/relay relay_step_failed", "/turnstile/worker relay_step_failed",
    ])
    error_message = "Once for each log group, also where relays and workers share one: its line names no queue."
  }

  assert {
    condition = (
      aws_cloudwatch_metric_alarm.relay_step_failed.metric_name == "relay_step_failed"
      && aws_cloudwatch_metric_alarm.relay_step_failed.namespace == "Turnstile/test"
      && aws_cloudwatch_metric_alarm.relay_step_failed.alarm_actions == toset([aws_sns_topic.alarms["page"].arn])
    )
    error_message = "One failed step is one page, however many queues there are."
  }
}

run "as_many_queues_as_one_relays_log_group_has_room_for" {
  variables {
    relay_log_groups = ["/turnstile/relay"]
    queues = {
      for queue in ["a", "b", "c", "d", "e", "f", "g"] : queue => { sqs_name = queue, dlq_name = "${queue}-dlq", worker_log_group = "/turnstile/worker-${queue}" }
    }
  }

  assert {
    condition = local.filters_by_group == {
      for group in local.all_log_groups : group => length([
        for filter in concat(
          values(aws_cloudwatch_log_metric_filter.event), values(aws_cloudwatch_log_metric_filter.backlog), values(aws_cloudwatch_log_metric_filter.attention),
          values(aws_cloudwatch_log_metric_filter.worker_lost), values(aws_cloudwatch_log_metric_filter.state), values(aws_cloudwatch_log_metric_filter.relay_step_failed),
        ) : filter if filter.log_group_name == group
      ])
    }
    error_message = "What is compared with AWS's limit is what is made."
  }

  assert {
    condition     = local.filters_by_group["/turnstile/relay"] == 92
    error_message = "infra/README.md says seven queues."
  }
}

run "a_queue_more" {
  command = plan

  variables {
    relay_log_groups = ["/turnstile/relay"]
    queues = {
      for queue in ["a", "b", "c", "d", "e", "f", "g", "h"] : queue => { sqs_name = queue, dlq_name = "${queue}-dlq", worker_log_group = "/turnstile/worker-${queue}" }
    }
  }

  expect_failures = [aws_cloudwatch_log_metric_filter.relay_step_failed]
}

run "topics" {
  assert {
    condition = alltrue([for policy in values(aws_sns_topic_policy.alarms) :
      [for one in jsondecode(policy.policy).Statement : one.Condition if one.Sid == "AlarmsPublish"] == [{ StringEquals = { "aws:SourceAccount" = "123456789012" } }]
    ])
    error_message = "Alarms of this account publish, and nobody else's."
  }
}

run "a_night_without_traffic" {
  variables {
    quiet_minutes = null
  }

  assert {
    condition     = length(aws_cloudwatch_metric_alarm.producer_quiet) == 0
    error_message = "Silence may be in order."
  }
}
