# An account that does not exist, for `make infra-check`: the example is planned, nothing is asked of AWS.
check_account               = false
region                      = "eu-central-1"
account_id                  = "123456789012"
vpc_id                      = "vpc-0123456789abcdef0"
private_subnet_ids          = ["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"]
private_route_table_ids     = ["rtb-0123456789abcdef0"]
load_balancer_subnet_ids    = ["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"]
client_cidrs                = ["10.0.0.0/8"]
certificate_arn             = "arn:aws:acm:eu-central-1:123456789012:certificate/00000000-0000-0000-0000-000000000000"
repository_arn              = "arn:aws:ecr:eu-central-1:123456789012:repository/turnstile"
image                       = "123456789012.dkr.ecr.eu-central-1.amazonaws.com/turnstile@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
handler                     = "turnstile.examples.eliza:respond"
page_emails                 = ["nobody@example.com"]
redis_auth_token_secret_arn = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:turnstile/redis-auth-token-000000"
