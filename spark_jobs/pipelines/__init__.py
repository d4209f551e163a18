"""Ready-made topologies, one YAML file each; docs/pipelines.md describes the format."""
