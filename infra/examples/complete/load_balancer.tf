# HTTPS in front of the API. Streams of events stay open for long and say something every 15 s, hence the idle time-out.

resource "aws_security_group" "load_balancer" {
  name        = "${var.name}-load-balancer"
  description = "HTTPS from clients"
  vpc_id      = var.vpc_id
}

resource "aws_vpc_security_group_ingress_rule" "clients" {
  for_each = toset(var.client_cidrs)

  security_group_id = aws_security_group.load_balancer.id
  description       = "HTTPS"
  cidr_ipv4         = each.key
  ip_protocol       = "tcp"
  from_port         = 443
  to_port           = 443
}

resource "aws_vpc_security_group_egress_rule" "to_tasks" {
  security_group_id            = aws_security_group.load_balancer.id
  description                  = "The API"
  referenced_security_group_id = aws_security_group.tasks.id
  ip_protocol                  = "tcp"
  from_port                    = 8080
  to_port                      = 8080
}

resource "aws_security_group" "tasks" {
  name        = "${var.name}-tasks"
  description = "Turnstile's tasks"
  vpc_id      = var.vpc_id
}

resource "aws_vpc_security_group_ingress_rule" "from_load_balancer" {
  security_group_id            = aws_security_group.tasks.id
  description                  = "The API"
  referenced_security_group_id = aws_security_group.load_balancer.id
  ip_protocol                  = "tcp"
  from_port                    = 8080
  to_port                      = 8080
}

# The port asks for no key.
resource "aws_vpc_security_group_ingress_rule" "metrics" {
  for_each = var.metrics_security_group_ids

  security_group_id            = aws_security_group.tasks.id
  description                  = "Metrics, for ${each.key}"
  referenced_security_group_id = each.value
  ip_protocol                  = "tcp"
  from_port                    = var.metrics_port
  to_port                      = var.metrics_port
}

# HTTPS: endpoints of AWS, the provider of the model, webhooks. Postgres and Redis. The ports of the collectors. DNS of the VPC and
# ECS's credentials pass no security group.
locals {
  collector_ports = flatten([for value in values(var.telemetry) : regexall("://[^/]*:([0-9]+)", value)])
}

resource "aws_vpc_security_group_egress_rule" "from_tasks" {
  for_each = toset(concat(["443", "5432", "6379"], local.collector_ports))

  security_group_id = aws_security_group.tasks.id
  description       = "Out, port ${each.key}"
  cidr_ipv4         = "0.0.0.0/0"
  ip_protocol       = "tcp"
  from_port         = tonumber(each.key)
  to_port           = tonumber(each.key)
}

resource "aws_lb" "api" {
  name                       = "${var.name}-api"
  internal                   = var.internal
  load_balancer_type         = "application"
  subnets                    = var.load_balancer_subnet_ids
  security_groups            = [aws_security_group.load_balancer.id]
  idle_timeout               = 120 # less than the API keeps its idle connections (producer/app.py)
  drop_invalid_header_fields = true
  enable_deletion_protection = true

  dynamic "access_logs" {
    for_each = var.access_logs_bucket[*]

    content {
      bucket  = access_logs.value
      prefix  = var.name
      enabled = true
    }
  }
}

resource "aws_lb_target_group" "api" {
  name                 = "${var.name}-api"
  vpc_id               = var.vpc_id
  port                 = 8080
  protocol             = "HTTP"
  target_type          = "ip"
  deregistration_delay = 60

  # Alive, not ready: ECS ends every task that its target group calls unhealthy, and /readyz fails on all of them at once while
  # Postgres fails over. Whoever asks meanwhile is answered 503 by the API itself, which is there again as soon as Postgres is.
  health_check {
    path                = "/healthz"
    interval            = 10
    timeout             = 5
    healthy_threshold   = 2
    unhealthy_threshold = 3
  }
}

resource "aws_lb_listener" "https" {
  load_balancer_arn = aws_lb.api.arn
  port              = 443
  protocol          = "HTTPS"
  ssl_policy        = "ELBSecurityPolicy-TLS13-1-2-2021-06"
  certificate_arn   = var.certificate_arn

  default_action {
    type             = "forward"
    target_group_arn = aws_lb_target_group.api.arn
  }
}

# Clients are refused and no queue shows it: what is not submitted does not wait. No news is bad news, because nothing is reported
# of a target group without targets. Alive, as above: an API that answers 503 because Postgres is away is not down.
resource "aws_cloudwatch_metric_alarm" "api_down" {
  alarm_name          = "${var.name}-api-down"
  alarm_description   = "No task of the API is well. First look: the events of its ECS service, the last lines of its log. Owner: ${var.owner}. Runbook: ${var.runbooks}/bad-deploy.md"
  namespace           = "AWS/ApplicationELB"
  metric_name         = "HealthyHostCount"
  dimensions          = { LoadBalancer = aws_lb.api.arn_suffix, TargetGroup = aws_lb_target_group.api.arn_suffix }
  statistic           = "Maximum"
  period              = 60
  evaluation_periods  = 3
  threshold           = 1
  comparison_operator = "LessThanThreshold"
  treat_missing_data  = "breaching"
  alarm_actions       = [module.alarms.topic_arns["page"]]
  ok_actions          = [module.alarms.topic_arns["page"]]
  tags                = { owner = var.owner }
}
