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
    error_message = "No other alarm looks at dead letters: their ERROR line has paged already (G26)."
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
    condition     = !contains(keys(aws_cloudwatch_metric_alarm.computed), "turns/session-still-halted") && !contains(keys(aws_cloudwatch_metric_alarm.computed), "turns/dlq-unexplained")
    error_message = "They are fed with what relays tell."
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
    error_message = "A worker that is killed after its commit writes no line; several relays tell the same."
  }

  assert {
    condition = {
      for filter in aws_cloudwatch_log_metric_filter.attention :
      "${filter.log_group_name} ${filter.metric_transformation[0].name}" => "${filter.metric_transformation[0].value} ${coalesce(filter.metric_transformation[0].default_value, "none")}"
      } == merge([for group in ["/turnstile/relay", "/turnstile/worker"] : {
        "${group} turns.failed_lately"  = "$.failed_lately none"
        "${group} turns.halted_lately"  = "$.halted_lately none"
        "${group} turns.halted_seconds" = "$.halted_seconds none"
        "${group} turns.letters"        = "$.letters none"
    }]...)
    error_message = "Each number of the relays' line is a metric of its queue, and no line is no number."
  }

  assert {
    condition = {
      for name in ["session-still-halted", "dlq-unexplained"] :
      name => [for query in aws_cloudwatch_metric_alarm.computed["turns/${name}"].metric_query : query.expression if query.id == "judged"][0]
      } == {
      session-still-halted = "IF(halted > 1800, IF(MINUTE(halted) < 50, 1, 0), 0)"
      dlq-unexplained      = "IF(letters >= 0, IF(messages > letters, IF(MINUTE(letters) < 50, 1, 0), 0), 0)"
    }
    error_message = "They rest once an hour, and page anew."
  }

  assert {
    condition = alltrue([for name in ["plain/turn-failed", "plain/session-halted", "plain/message-malformed", "computed/session-still-halted", "computed/dlq-unexplained"] :
      merge({ for key, one in aws_cloudwatch_metric_alarm.plain : "plain/${key}" => one }, { for key, one in aws_cloudwatch_metric_alarm.computed : "computed/${key}" => one })[replace(name, "/", "/turns/")].alarm_actions == toset([aws_sns_topic.alarms["page"].arn])
    ])
    error_message = "Each of them pages."
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
    }
    error_message = "Each number of the relay's line is a metric of its queue."
  }

  assert {
    condition     = alltrue([for filter in aws_cloudwatch_log_metric_filter.backlog : filter.metric_transformation[0].default_value == null])
    error_message = "No line is no number: a 0 would take workers away."
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

run "a_lock_is_held_for_a_whole_turn" {
  variables {
    queues = {
      turns = { sqs_name = "t", dlq_name = "t-dlq", worker_log_group = "/turnstile/worker", timeout_seconds = 900 }
      brief = { sqs_name = "b", dlq_name = "b-dlq", worker_log_group = "/turnstile/worker", timeout_seconds = 10 }
    }
  }

  assert {
    condition     = aws_cloudwatch_metric_alarm.plain["turns/lock-held-long"].threshold == 2700
    error_message = "A turn of a quarter of an hour holds its session's lock for as long, and nothing is wrong."
  }

  assert {
    condition     = aws_cloudwatch_metric_alarm.plain["brief/lock-held-long"].threshold == 90
    error_message = "Short turns share a hold."
  }
}

run "topics" {
  assert {
    condition = alltrue([for policy in values(aws_sns_topic_policy.alarms) :
      [for one in jsondecode(policy.policy).Statement : one.Condition if one.Effect == "Allow"] == [{ StringEquals = { "aws:SourceAccount" = "123456789012" } }]
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
