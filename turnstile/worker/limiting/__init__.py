"""The limits of the fleet at the claim: a turn takes its places and tokens before it is claimed."""
