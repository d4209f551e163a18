"""The rules for other monitoring systems: alerting rules of Prometheus and a dashboard of Grafana. Both name
the series that `/metrics` has, with the values that the rules judge here."""
