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

run "operators_have_a_task_of_their_own" {
  command = plan

  assert {
    condition     = module.operator.service_name == null && join(" ", module.operator.container_definition.command) == "doctor"
    error_message = "What is run without a word looks and changes nothing, and ends."
  }

  assert {
    condition = toset([for one in module.operator.container_definition.secrets : one.name]) == toset([
      "DATABASE_URL", "REDIS_URL", "TURNSTILE_MEMORY_REDIS_URL",
    ])
    error_message = "The stores, and no client's key."
  }
}

run "an_api_that_is_gone_pages" {
  command = plan

  assert {
    condition     = aws_cloudwatch_metric_alarm.api_down.treat_missing_data == "breaching"
    error_message = "Where no target is left nothing is told at all."
  }
}

run "what_a_deployment_by_hand_needs_is_told" {
  command = plan

  assert {
    condition     = output.cluster == "turnstile" && toset(keys(output.redis_addresses)) == toset(["locks", "memory"])
    error_message = "run-task needs the cluster, and REDIS_URL and its sister a host each."
  }
}

run "what_it_stands_on_is_watched" {
  command = plan

  assert {
    condition     = toset(keys(module.data.redis_nodes)) == toset(["locks-1", "locks-2", "memory-1", "memory-2"]) && module.data.redis_nodes["locks-1"] == "turnstile-locks-001"
    error_message = "Every node of every cache."
  }
}
