"""Who did what?"""
