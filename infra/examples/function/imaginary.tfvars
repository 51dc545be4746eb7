# An account that does not exist, for `make infra-check`: the example is planned, nothing is asked of AWS.
check_account       = false
region              = "eu-central-1"
account_id          = "123456789012"
image               = "123456789012.dkr.ecr.eu-central-1.amazonaws.com/turnstile@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
handler             = "turnstile.examples.eliza:respond"
private_subnet_ids  = ["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"]
security_group_ids  = ["sg-0123456789abcdef0"]
secrets_kms_key_arn = "arn:aws:kms:eu-central-1:123456789012:key/00000000-0000-0000-0000-000000000000"
secrets = {
  DATABASE_URL = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:turnstile/DATABASE_URL-AbCdEf"
  REDIS_URL    = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:turnstile/REDIS_URL-AbCdEf"
}
