# Two topics: `page` wakes somebody, `tell` is read in the morning.

locals {
  topics = toset(["page", "tell"])
}

resource "aws_sns_topic" "alarms" {
  for_each = local.topics

  name              = "${var.name}-${each.key}"
  kms_master_key_id = var.kms_key_arn
  tags              = var.tags
}

resource "aws_sns_topic_policy" "alarms" {
  for_each = aws_sns_topic.alarms

  arn = each.value.arn
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Sid       = "AlarmsPublish"
        Effect    = "Allow"
        Principal = { Service = "cloudwatch.amazonaws.com" }
        Action    = "sns:Publish"
        Resource  = each.value.arn
        # Only alarms of this account: any account's alarm has the same service principal.
        Condition = { StringEquals = { "aws:SourceAccount" = element(split(":", each.value.arn), 4) } }
      },
      # Failed deployments (platform.tf). Without a condition, as in AWS's own example: one that EventBridge does not meet would keep
      # the page from its reader, and nothing would say so.
      {
        Sid       = "EventsPublish"
        Effect    = "Allow"
        Principal = { Service = "events.amazonaws.com" }
        Action    = "sns:Publish"
        Resource  = each.value.arn
      },
      {
        Sid       = "RefusePlainText"
        Effect    = "Deny"
        Principal = { AWS = "*" }
        Action    = "sns:Publish"
        Resource  = each.value.arn
        Condition = { Bool = { "aws:SecureTransport" = "false" } }
      },
    ]
  })
}

resource "aws_sns_topic_subscription" "page" {
  for_each = toset(var.page_emails)

  topic_arn = aws_sns_topic.alarms["page"].arn
  protocol  = "email"
  endpoint  = each.key
}
