# The dashboard names metrics that exist, of its own queues, in places of their own.

mock_provider "aws" {
  mock_data "aws_region" {
    defaults = { name = "eu-central-1" }
  }
  mock_resource "aws_sns_topic" {
    defaults = { arn = "arn:aws:sns:eu-central-1:123456789012:test" }
  }
}

variables {
  name             = "test"
  relay_log_groups = ["/turnstile/relay"]
  queues = {
    turns  = { sqs_name = "test-turns", dlq_name = "test-turns-dlq", worker_log_group = "/turnstile/worker-turns" }
    strict = { sqs_name = "test-strict.fifo", dlq_name = "test-strict-dlq.fifo", worker_log_group = "/turnstile/worker-strict" }
  }
}

run "graphs_and_their_places" {
  assert {
    condition = length(setsubtract(
      flatten([
        for widget in jsondecode(aws_cloudwatch_dashboard.queues.dashboard_body).widgets : [
          for metric in widget.properties.metrics : metric[1] if metric[0] == "Turnstile/test"
        ] if widget.type == "metric"
      ]),
      [for filter in concat(
        values(aws_cloudwatch_log_metric_filter.event), values(aws_cloudwatch_log_metric_filter.backlog),
        values(aws_cloudwatch_log_metric_filter.attention), values(aws_cloudwatch_log_metric_filter.worker_lost), values(aws_cloudwatch_log_metric_filter.state),
      ) : filter.metric_transformation[0].name],
    )) == 0
    error_message = "A metric that no filter makes would be an empty graph, and nothing would say so."
  }

  assert {
    condition = toset(flatten([
      for widget in jsondecode(aws_cloudwatch_dashboard.queues.dashboard_body).widgets : [
        for metric in widget.properties.metrics : "${split(":", widget.properties.title)[0]} ${metric[2]} ${metric[3]}" if metric[0] == "AWS/SQS"
      ] if widget.type == "metric"
      ])) == toset([
      "turns QueueName test-turns", "turns QueueName test-turns-dlq", "strict QueueName test-strict.fifo", "strict QueueName test-strict-dlq.fifo",
    ])
    error_message = "Each graph is of its own queue."
  }

  assert {
    condition = length(distinct(flatten([
      for widget in jsondecode(aws_cloudwatch_dashboard.queues.dashboard_body).widgets : [
        for cell in setproduct(range(widget.x, widget.x + widget.width), range(widget.y, widget.y + widget.height)) : "${cell[0]} ${cell[1]}"
      ]
      ]))) == sum([
      for widget in jsondecode(aws_cloudwatch_dashboard.queues.dashboard_body).widgets : widget.width * widget.height
      ]) && alltrue([
      for widget in jsondecode(aws_cloudwatch_dashboard.queues.dashboard_body).widgets : widget.x + widget.width <= 24
    ])
    error_message = "No widget lies on another."
  }
}

run "the_dashboard_leaves_out_what_relays_report_where_no_relays_log_is_known" {
  variables {
    relay_log_groups = []
  }

  assert {
    condition = length(setsubtract(
      flatten([
        for widget in jsondecode(aws_cloudwatch_dashboard.queues.dashboard_body).widgets : [
          for metric in widget.properties.metrics : metric[1] if metric[0] == "Turnstile/test"
        ] if widget.type == "metric"
      ]),
      [for filter in concat(
        values(aws_cloudwatch_log_metric_filter.event), values(aws_cloudwatch_log_metric_filter.backlog),
        values(aws_cloudwatch_log_metric_filter.attention), values(aws_cloudwatch_log_metric_filter.worker_lost), values(aws_cloudwatch_log_metric_filter.state),
      ) : filter.metric_transformation[0].name],
    )) == 0
    error_message = "An empty graph looks like a quiet queue."
  }

  assert {
    condition     = strcontains(aws_cloudwatch_dashboard.queues.dashboard_body, "turns.turn_failed") && strcontains(aws_cloudwatch_dashboard.queues.dashboard_body, "turns.message_malformed")
    error_message = "What workers report is shown, also next to what is left out."
  }

  assert {
    condition     = alltrue([for widget in jsondecode(aws_cloudwatch_dashboard.queues.dashboard_body).widgets : length(widget.properties.metrics) > 0 if widget.type == "metric"])
    error_message = "CloudWatch refuses a graph without a metric."
  }
}
