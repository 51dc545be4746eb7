# One ECS Fargate service: the API, the workers of one queue, or the relay. They differ in command, role and count. Or the task
# definition alone, for what runs once and ends.

data "aws_region" "here" {}

locals {
  container = "turnstile"

  # The image's own check, with the port: which command runs is known here, and needs not be read off a process 1 that is ECS's.
  health_check = var.port == null ? null : {
    command     = ["CMD", "python", "-I", "-m", "turnstile.ops.container_health", tostring(var.port)]
    interval    = 10
    timeout     = 5
    retries     = 3
    startPeriod = var.start_seconds
  }

  definition = {
    name                   = local.container
    image                  = var.image
    command                = var.command
    essential              = true
    user                   = "10001"
    readonlyRootFilesystem = true
    stopTimeout            = var.stop_timeout
    environment = [for name, value in merge(
      { TURNSTILE_LOG_FORMAT = "json", TURNSTILE_GRACE_SECONDS = tostring(var.grace_seconds) },
      var.metrics_port == null ? {} : { TURNSTILE_METRICS_PORT = tostring(var.metrics_port) },
      var.environment,
    ) : { name = name, value = value }]
    secrets      = [for name, arn in var.secrets : { name = name, valueFrom = arn }]
    portMappings = [for port in [var.port, var.metrics_port] : { containerPort = port, protocol = "tcp" } if port != null]
    # The only place that is writable; it goes with the task.
    mountPoints     = [{ sourceVolume = "tmp", containerPath = "/tmp" }]
    linuxParameters = { capabilities = { drop = ["ALL"] } }
    logConfiguration = {
      logDriver = "awslogs"
      options = {
        awslogs-group         = aws_cloudwatch_log_group.log.name
        awslogs-region        = data.aws_region.here.name
        awslogs-stream-prefix = var.name
        # A worker never waits for its log: what does not fit is dropped.
        mode            = "non-blocking"
        max-buffer-size = "25m"
      }
    }
  }
}

resource "aws_cloudwatch_log_group" "log" {
  name              = "/turnstile/${var.name}"
  retention_in_days = var.log_retention_days
  kms_key_id        = var.log_kms_key_arn
  tags              = var.tags
}

# The agent's role, not the process's: it pulls the image, writes the log and reads this service's secrets.
resource "aws_iam_role" "execution" {
  name                 = "${var.name}-execution"
  permissions_boundary = var.permissions_boundary
  tags                 = var.tags
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Action    = "sts:AssumeRole"
      Principal = { Service = "ecs-tasks.amazonaws.com" }
    }]
  })
}

resource "aws_iam_role_policy" "execution" {
  name = "start"
  role = aws_iam_role.execution.id
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [for each in concat(
      [for one in [
        # AWS offers no narrower resource for it.
        { Sid = "SignIn", Effect = "Allow", Action = ["ecr:GetAuthorizationToken"], Resource = ["*"] },
        {
          Sid      = "PullImage"
          Effect   = "Allow"
          Action   = ["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"]
          Resource = [var.repository_arn]
        },
        {
          Sid      = "WriteLog"
          Effect   = "Allow"
          Action   = ["logs:CreateLogStream", "logs:PutLogEvents"]
          Resource = ["${aws_cloudwatch_log_group.log.arn}:*"]
        },
        { Sid = "ReadSecrets", Effect = "Allow", Action = ["secretsmanager:GetSecretValue"], Resource = values(var.secrets) },
      ] : jsonencode(one)],
      var.secrets_kms_key_arn == null ? [] : [jsonencode({
        Sid = "DecryptSecrets", Effect = "Allow", Action = ["kms:Decrypt"], Resource = [var.secrets_kms_key_arn]
      })],
    ) : jsondecode(each)]
  })
}

resource "aws_ecs_task_definition" "task" {
  family                   = var.name
  requires_compatibilities = ["FARGATE"]
  network_mode             = "awsvpc"
  cpu                      = var.cpu
  memory                   = var.memory
  execution_role_arn       = aws_iam_role.execution.arn
  task_role_arn            = var.task_role_arn
  container_definitions = jsonencode([
    { for key, value in merge(local.definition, { healthCheck = local.health_check }) : key => value if value != null }
  ])
  tags = var.tags

  runtime_platform {
    operating_system_family = "LINUX"
    cpu_architecture        = var.architecture
  }

  volume {
    name = "tmp"
  }
}

resource "aws_ecs_service" "service" {
  count = var.one_off ? 0 : 1

  name            = var.name
  cluster         = var.cluster_arn
  task_definition = aws_ecs_task_definition.task.arn
  desired_count   = var.desired_count
  launch_type     = "FARGATE"
  propagate_tags  = "SERVICE"
  # New tasks before old ones end, so that a deployment never lowers what is there.
  deployment_minimum_healthy_percent = 100
  deployment_maximum_percent         = 200
  availability_zone_rebalancing      = "ENABLED"
  health_check_grace_period_seconds  = var.target_group_arn == null ? null : var.start_seconds
  tags                               = var.tags

  deployment_circuit_breaker {
    enable   = true
    rollback = true
  }

  network_configuration {
    subnets          = var.subnet_ids
    security_groups  = var.security_group_ids
    assign_public_ip = false
  }

  dynamic "load_balancer" {
    for_each = var.target_group_arn == null ? [] : [var.target_group_arn]

    content {
      target_group_arn = load_balancer.value
      container_name   = local.container
      container_port   = var.port
    }
  }

  lifecycle {
    # Autoscaling's, after the first deployment.
    ignore_changes = [desired_count]

    precondition {
      condition     = var.target_group_arn == null || var.port != null
      error_message = "A service behind a load balancer needs a port."
    }
  }

  depends_on = [aws_iam_role_policy.execution]
}
