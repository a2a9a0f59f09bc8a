/* For tests: the process ends itself by SIGKILL at a step of a job, as if somebody else had
 * done it there. Only in builds with the option ATTACHD_TEST_HOOKS; others have none of it.
 */
#pragma once

#ifdef ATTACHD_TEST_HOOKS
/* Follows the environment: ATTACHD_TEST_KILL_OP, an operation; ATTACHD_TEST_KILL_AT, the
 * number of the step, counted from 1 over the beginnings and the ends of the waits of tasks
 * that run such a job (0: none); ATTACHD_TEST_KILL_TRACE, a file that each step is written
 * to. Without the first, nothing is done. */
void kill_hook_begin(void);
#endif
