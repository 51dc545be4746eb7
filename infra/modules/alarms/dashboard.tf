# What is looked at and alarms nobody, the depth of the dead-letter queues before all (G26).

data "aws_region" "here" {}

locals {
  sqs_widgets = {
    "waiting and in hand" = { source = "main", metrics = ["ApproximateNumberOfMessagesVisible", "ApproximateNumberOfMessagesNotVisible"], statistic = "Maximum" }
    "age of the oldest"   = { source = "main", metrics = ["ApproximateAgeOfOldestMessage"], statistic = "Maximum" }
    "throughput"          = { source = "main", metrics = ["NumberOfMessagesSent", "NumberOfMessagesReceived", "NumberOfMessagesDeleted"], statistic = "Sum" }
    "dead letters"        = { source = "dlq", metrics = ["ApproximateNumberOfMessagesVisible"], statistic = "Maximum" }
  }

  widgets = flatten([
    for row, queue in sort(keys(var.queues)) : [
      for column, title in keys(local.sqs_widgets) : {
        type   = "metric"
        x      = column * 6
        y      = row * 6
        width  = 6
        height = 6
        properties = {
          title  = "${queue}: ${title}"
          region = data.aws_region.here.name
          period = 60
          stat   = local.sqs_widgets[title].statistic
          metrics = [
            for metric in local.sqs_widgets[title].metrics :
            ["AWS/SQS", metric, "QueueName", local.sqs_widgets[title].source == "main" ? var.queues[queue].sqs_name : var.queues[queue].dlq_name]
          ]
        }
      }
    ]
  ])
}

resource "aws_cloudwatch_dashboard" "queues" {
  dashboard_name = var.name
  dashboard_body = jsonencode({ widgets = local.widgets })
}
