"""Webhooks: the ends of jobs, posted to the addresses that the jobs were given.

The end of a job whose `meta` has a webhook stores a job of the task `windlass.webhook` in the same
step (`store.webhooks`). Every server runs those, and posts what they say:

delivery    what is posted, and the task that posts it
signing     the signature, as Standard Webhooks say, and the secret of each tenant
addresses   which addresses may be posted to
transport   an HTTP transport that connects to the very address that was checked

An end is posted at least once: the server may be killed after the answer came and before it is
written down. `webhook-id` is the same each time, so receivers can tell.

Every producer chooses addresses, so webhooks are a way into the server's own network. A
check of the URL is no protection: names lead where their owners like, and elsewhere a second later.
So a name is resolved once, what comes of it is checked, and the connection is made to that. No
proxy of the environment is used, and no redirect is followed.
"""
