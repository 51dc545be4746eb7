"""The secrets that sign each tenant's webhooks: show, list, rotate, revoke."""
