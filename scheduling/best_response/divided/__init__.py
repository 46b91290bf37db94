"""Jobs that divide their time at will among all machines that they could use: a relaxation of every schedule."""
