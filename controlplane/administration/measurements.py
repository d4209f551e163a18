"""Figures over time in the admin site, to be looked at."""

from __future__ import annotations

from django.contrib import admin

from controlplane.administration.pages import SystemOwnedAdmin
from controlplane.measurements.models import Measurement


@admin.register(Measurement)
class MeasurementAdmin(SystemOwnedAdmin):
    list_display = ("kind", "topology", "part", "node", "seconds", "at")
    list_filter = ("kind", "seconds", "topology", "node")
    list_select_related = ("topology", "node")
    search_fields = ("part",)
    date_hierarchy = "at"
