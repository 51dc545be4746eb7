output "topic_arns" {
  description = "Topics `page` and `tell`."
  value       = { for name, topic in aws_sns_topic.alarms : name => topic.arn }
}

output "log_patterns" {
  description = "What is counted from the log, by metric: for the test that compares it with what the product writes."
  value       = { for metric, one in local.log_metrics : metric => one.pattern }
}

output "backlog_patterns" {
  description = "The log line that reports the backlog, by queue: for the test that compares it with what the product writes."
  value       = local.backlog_patterns
}

output "attention_patterns" {
  description = "The log line that reports what waits for a person, by queue: for the same test."
  value       = local.attention_patterns
}

output "lost_patterns" {
  description = "The log line that reports a lost worker, by queue: for the same test."
  value       = local.lost_patterns
}

output "workers_patterns" {
  description = "The log line that reports how many workers are unwell, by queue: for the same test."
  value       = local.workers_patterns
}

output "standstill_patterns" {
  description = "The log line that reports a standstill, by queue: for the same test."
  value       = local.standstill_patterns
}

output "namespace" {
  description = "Namespace of the metrics that are counted from the log."
  value       = local.namespace
}
