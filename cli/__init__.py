"""The command line `resurge`: thin over REST (`/api/v1/`) and the websocket of numbered events.

It knows the server only by its address: nothing of the control plane or Django is imported here, so the
package can be installed alone on an operator's machine.
"""

__version__ = "0.1.0"
