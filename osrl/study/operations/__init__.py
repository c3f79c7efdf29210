"""What changes a study: ask, tell, abandon and the decisions of people."""
