"""Stream processors and graders of pathgate."""
