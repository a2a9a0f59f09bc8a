/* Whatever stands in the `job` field of a stream entry. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "queue/job.h"

enum { JOB_ARENA_BYTES = 8 * 1024 * 1024 };

/* NOLINTNEXTLINE(readability-identifier-naming): libFuzzer gives the name. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What is told of a job must be fit to be told, whether or not it was taken. */
static void check_job(const struct job *job, int failed, const struct error *err)
{
    if (job->id && !job_is_name(job->id, strlen(job->id)))
        abort();
    if (job->reply_to && !job_is_name(job->reply_to, strlen(job->reply_to)))
        abort();
    if (!failed && (!job->id || !job->provider || !job->sandbox_id || !job->map))
        abort();
    if (failed && (err->code == ERROR_NONE || err->message[0] == '\0'))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    arena_scoped struct arena *arena = arena_new(JOB_ARENA_BYTES);
    struct job job;
    struct error err = {0};
    if (!arena)
        return 0;
    int failed = job_read(data, size, arena, &job, &err);
    check_job(&job, failed, &err);
    if (failed)
        return 0;
    failed = job_read_arguments(&job, arena, &err);
    check_job(&job, failed, &err);
    return 0;
}
