# The task definition and the service that ECS gets.

mock_provider "aws" {
  mock_data "aws_region" {
    defaults = { name = "eu-central-1" }
  }
  mock_resource "aws_iam_role" {
    defaults = { arn = "arn:aws:iam::123456789012:role/mocked" }
  }
  mock_resource "aws_cloudwatch_log_group" {
    defaults = { arn = "arn:aws:logs:eu-central-1:123456789012:log-group:/turnstile/worker" }
  }
  mock_resource "aws_ecs_task_definition" {
    defaults = { arn = "arn:aws:ecs:eu-central-1:123456789012:task-definition/worker:1" }
  }
}

variables {
  name               = "worker"
  cluster_arn        = "arn:aws:ecs:eu-central-1:123456789012:cluster/test"
  image              = "123456789012.dkr.ecr.eu-central-1.amazonaws.com/turnstile@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
  repository_arn     = "arn:aws:ecr:eu-central-1:123456789012:repository/turnstile"
  command            = ["worker", "--queue", "turns", "--no-relay"]
  secrets            = { DATABASE_URL = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:turnstile/DATABASE_URL" }
  task_role_arn      = "arn:aws:iam::123456789012:role/worker"
  subnet_ids         = ["subnet-a", "subnet-b"]
  security_group_ids = ["sg-a"]
  port               = 8081
}

run "a_worker" {
  assert {
    condition     = jsondecode(aws_ecs_task_definition.task.container_definitions)[0].stopTimeout == 120
    error_message = "Turns have two minutes to end."
  }

  assert {
    condition = contains(
      jsondecode(aws_ecs_task_definition.task.container_definitions)[0].environment, { name = "TURNSTILE_GRACE_SECONDS", value = "90" },
    )
    error_message = "The worker gets a grace that fits into it."
  }

  assert {
    condition = (
      jsondecode(aws_ecs_task_definition.task.container_definitions)[0].readonlyRootFilesystem
      && jsondecode(aws_ecs_task_definition.task.container_definitions)[0].user == "10001"
      && jsondecode(aws_ecs_task_definition.task.container_definitions)[0].linuxParameters.capabilities.drop == ["ALL"]
    )
    error_message = "No root, no capabilities, nothing writable but /tmp."
  }

  assert {
    condition = jsondecode(aws_ecs_task_definition.task.container_definitions)[0].healthCheck.command == [
      "CMD", "python", "-I", "-m", "turnstile.ops.container_health", "8081",
    ]
    error_message = "ECS asks whether it lives, past proxies and what stands in the handler's folder."
  }

  assert {
    condition = jsondecode(aws_ecs_task_definition.task.container_definitions)[0].secrets == [
      { name = "DATABASE_URL", valueFrom = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:turnstile/DATABASE_URL" }
    ]
    error_message = "Secrets are named, not copied."
  }

  assert {
    condition     = aws_ecs_service.service[0].deployment_circuit_breaker[0].enable && aws_ecs_service.service[0].deployment_circuit_breaker[0].rollback
    error_message = "A deployment that does not come up is taken back."
  }

  assert {
    condition = toset([for one in jsondecode(aws_iam_role_policy.execution.policy).Statement : one.Sid if contains(one.Resource, "*")]) == toset([
      "SignIn"
    ])
    error_message = "The agent signs in to ECR; all else it does on named resources."
  }
}

run "a_handler_that_loads_for_long" {
  variables {
    start_seconds = 240
  }

  assert {
    condition     = jsondecode(aws_ecs_task_definition.task.container_definitions)[0].healthCheck.startPeriod == 240
    error_message = "A worker answers no check before its handler is loaded: it would be ended and begun again for ever."
  }
}

run "an_api_that_starts_slowly" {
  variables {
    start_seconds    = 90
    target_group_arn = "arn:aws:elasticloadbalancing:eu-central-1:123456789012:targetgroup/api/0123456789abcdef"
  }

  assert {
    condition     = aws_ecs_service.service[0].health_check_grace_period_seconds == 90
    error_message = "The load balancer's checks end a task as ECS's own do."
  }
}

run "a_start_that_takes_longer_than_ecs_waits" {
  command = plan

  variables {
    start_seconds = 301
  }

  expect_failures = [var.start_seconds]
}

run "the_relay_has_no_health_port" {
  variables {
    command = ["relay"]
    port    = null
  }

  assert {
    condition     = !can(jsondecode(aws_ecs_task_definition.task.container_definitions)[0].healthCheck)
    error_message = "There is nothing to ask."
  }
}

run "a_task_that_ends" {
  variables {
    command       = ["migrate"]
    one_off       = true
    port          = null
    task_role_arn = null
  }

  assert {
    condition     = length(aws_ecs_service.service) == 0 && output.service_name == null && output.task_definition_arn != null
    error_message = "There is a task to run, and no service that would run it again and again."
  }
}

run "a_grace_that_does_not_fit" {
  command = plan

  variables {
    grace_seconds = 115
  }

  expect_failures = [var.stop_timeout]
}

run "an_image_by_its_tag" {
  command = plan

  variables {
    image = "turnstile:latest"
  }

  expect_failures = [var.image]
}

run "no_metrics_unless_asked" {
  assert {
    condition = (
      [for one in jsondecode(aws_ecs_task_definition.task.container_definitions)[0].portMappings : one.containerPort] == [8081]
      && !contains([for one in jsondecode(aws_ecs_task_definition.task.container_definitions)[0].environment : one.name], "TURNSTILE_METRICS_PORT")
    )
    error_message = "Nothing listens that nobody asked for."
  }
}

run "metrics" {
  variables {
    metrics_port = 9464
  }

  assert {
    condition = (
      [for one in jsondecode(aws_ecs_task_definition.task.container_definitions)[0].portMappings : one.containerPort] == [8081, 9464]
      && contains(jsondecode(aws_ecs_task_definition.task.container_definitions)[0].environment, { name = "TURNSTILE_METRICS_PORT", value = "9464" })
    )
    error_message = "The process gets its port, and the task opens it."
  }

  assert {
    condition     = jsondecode(aws_ecs_task_definition.task.container_definitions)[0].healthCheck.command[5] == "8081"
    error_message = "ECS asks for its health where it did."
  }
}

run "a_relay_with_metrics" {
  variables {
    command      = ["relay"]
    port         = null
    metrics_port = 9464
  }

  assert {
    condition     = [for one in jsondecode(aws_ecs_task_definition.task.container_definitions)[0].portMappings : one.containerPort] == [9464]
    error_message = "Its only port."
  }
}

run "metrics_on_the_port_of_the_health" {
  command = plan

  variables {
    metrics_port = 8081
  }

  expect_failures = [var.metrics_port]
}
