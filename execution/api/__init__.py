"""The REST interface of execution: trainings, their progress and logs, and what operators see."""
