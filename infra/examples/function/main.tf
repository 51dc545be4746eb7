# Workers as a function: a queue, and the function that answers it. Database, caches, API and relay are those of examples/complete,
# whose TURNSTILE_QUEUES gets this queue, too: a relay there wakes what the function leaves (docs/runbooks/lambda.md).

terraform {
  required_version = ">= 1.9"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = "~> 5.100"
    }
  }
}

provider "aws" {
  region              = var.region
  allowed_account_ids = var.check_account ? [var.account_id] : null
  # For `make infra-check`, which has neither an account nor a network.
  skip_credentials_validation = !var.check_account
  skip_requesting_account_id  = !var.check_account
  skip_metadata_api_check     = !var.check_account
}

# Not bound to VPC endpoints: the event source polls from outside.
module "brief" {
  source = "../../modules/queue"

  name               = "brief"
  prefix             = "${var.name}-"
  timeout_seconds    = 240
  visibility_seconds = 1800
}

module "answer" {
  source = "../../modules/lambda"

  name                = "${var.name}-brief"
  image               = var.image
  queue               = module.brief.name
  queues              = { brief = module.brief.access }
  visibility_seconds  = module.brief.declaration.visibility_seconds
  timeout_seconds     = 300
  subnet_ids          = var.private_subnet_ids
  security_group_ids  = var.security_group_ids
  secrets             = var.secrets
  secrets_kms_key_arn = var.secrets_kms_key_arn
  environment = merge(var.telemetry, {
    TURNSTILE_HANDLER       = var.handler
    TURNSTILE_QUEUES        = jsonencode([module.brief.declaration])
    TURNSTILE_LEASE_SECONDS = tostring(module.brief.lease_seconds)
  })
}

output "declaration" {
  description = "The queue's entry of TURNSTILE_QUEUES, for the API and the relay."
  value       = module.brief.declaration
}

output "function_name" {
  description = "The function."
  value       = module.answer.function_name
}
