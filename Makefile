# Two commands matter: `make up` and `make test`. Everything else is one line each.
#
#   make up [PROFILE=scarce|roomy] [DETACH=1] [INPUT=tweets.parquet] [RATE=1000] [LIMIT=n]
#           [REPLICAS=on|off|n] [NODES=4] [STANDBYS=0] [RESURGE_PORT=8000] [RESURGE_HOME=var]
#   make down: stops everything; the next make up goes on from the newest checkpoints
#   make reset [YES=1]: stops everything and deletes what ran (outputs are kept under another name)
#   make status | logs [NAME=web] [FOLLOW=1]
#   make test [ARGS="tests/unit -k word"] | lint | types | format
#   make test-long [ARGS="--only repetitions --repetitions 3"]: hours; see docs/testing.md

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help install up down reset status logs install-test test test-long lint types format

help:
	@sed -n '3,9s/^#  //p' Makefile

install:
	@$(PYTHON) supervision/bootstrap.py runtime

up: install
	@exec $(BIN)/python -m supervision up

down:
	@if [ -x $(BIN)/python ]; then exec $(BIN)/python -m supervision down; else echo "nothing was ever started here"; fi

reset:
	@if [ -x $(BIN)/python ]; then exec $(BIN)/python -m supervision reset; else echo "nothing was ever started here"; fi

status:
	@if [ -x $(BIN)/python ]; then exec $(BIN)/python -m supervision status; else echo "not installed: make up"; exit 3; fi

logs:
	@exec $(BIN)/python -m supervision logs

install-test:
	@$(PYTHON) supervision/bootstrap.py runtime test

test: install-test
	@exec $(BIN)/python -m supervision.checks $(ARGS)

test-long: install-test
	@exec $(BIN)/python -m supervision.long_checks $(ARGS)

lint: install-test
	@exec $(BIN)/python -m supervision.checks --only lint

types: install-test
	@exec $(BIN)/python -m supervision.checks --only types

format: install-test
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix .
