# What the modules must agree on where they are put together. Run with imaginary.tfvars, as the plan is.

mock_provider "aws" {
  mock_data "aws_region" {
    defaults = { name = "eu-central-1" }
  }
  mock_data "aws_partition" {
    defaults = { partition = "aws" }
  }
}

run "a_failover_of_the_database_costs_no_task" {
  command = plan

  assert {
    condition     = aws_lb_target_group.api.health_check[0].path == "/healthz"
    error_message = "ECS replaces every task that its target group calls unhealthy: an outage behind the API must not make it so."
  }
}

run "one_lease_for_all" {
  command = plan

  variables {
    lease_seconds = 45
  }

  assert {
    condition = (
      module.turns.lease_seconds == 45 && module.strict.lease_seconds == 45
      && local.environment.TURNSTILE_LEASE_SECONDS == "45"
    )
    error_message = "A lease that one queue's visibility timeout does not bear would let no process start: each is checked against the same."
  }
}

run "the_owner_of_the_tables" {
  command = plan

  assert {
    condition = (
      aws_secretsmanager_secret.owner.name == "turnstile/owner/DATABASE_URL"
      && [for one in module.migrate.container_definition.secrets : one.name] == ["DATABASE_URL"]
    )
    error_message = "Only migrations are made by the owner of the tables, and they need nothing else."
  }

  assert {
    condition     = module.migrate.service_name == null
    error_message = "A task that ends is no service."
  }
}

run "an_api_that_is_gone_pages" {
  command = plan

  assert {
    condition     = aws_cloudwatch_metric_alarm.api_down.treat_missing_data == "breaching"
    error_message = "Where no target is left nothing is told at all."
  }
}
