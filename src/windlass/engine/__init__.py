"""The engine: wake → claim → run → settle, over any store.

One worker is one set of loops around a dictionary of deliveries:

* the **claimer** takes jobs ahead of need and hands back what lies too long;
* the **slots** run handlers, one job at a time each;
* the **settler** writes outcomes, gathering while a write is in flight;
* the **keeper** renews leases from a thread of its own, tells handlers to stop when a lease is
  lost or a cancel is asked for, and fences them before the lease can pass to another worker;
* the **promoter** makes due jobs ready, the **reaper** takes jobs back from dead workers, the
  **pruner** removes history, the **note writer** writes progress and log entries of running jobs,
  the **reporter** tells of jobs that ended, the **scheduler** fires schedules.

`engine` puts the loops together, and `supervision` is the life of one worker around it: start, wait
for a stop or the end, drain, sign off.

A delivery is in `in_hand` from its claim until its settlement is written, so the keeper sees it all
that time. Nothing here knows SQL, and nothing but the clock and the event loop knows time.
"""
