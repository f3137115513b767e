"""The dashboard: pages in a browser for those who run the jobs.

Pages are made on the server from the verbs of the client, by Jinja2 templates, and can be read
without JavaScript; with it, they follow what happens. The modules, from the outside in:

site        the ASGI application: one handler for each page of the tables
admission   who asks, from the cookie or from where the request comes, and whether it may
forms       what a page sends back: from the same site, with the token of the page
cookies     what a browser keeps: the token it signed in with, a random visit, the theme
visit       one request whose caller is known, and what pages are given
answers     a page, or the address of the next one; the headers of every answer
rendering   templates, and the one place where text becomes HTML
figures     counts, rates and groups: all that pages show of many jobs at once
live        server-sent events, one look at the database for all who watch

and each page is a module of `pages`, which declares its address and the power that it needs.

What a payload, a name or an error says never becomes HTML: templates escape everything, there is no
exception to that, and the Content-Security-Policy of every answer lets the browser run the files in
`static` and nothing else.
"""

from windlass.server.dashboard.site import is_page, make_dashboard

__all__ = ["is_page", "make_dashboard"]
