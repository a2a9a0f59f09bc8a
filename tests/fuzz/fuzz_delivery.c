/* What Redis answers to a read: any bytes of its protocol, read as stream entries. */
#include <hiredis/hiredis.h>
#include <stddef.h>
#include <stdint.h>

#include "queue/delivery.h"

/* libFuzzer's entry point has the name it has.
 * NOLINTNEXTLINE(readability-identifier-naming) */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_batches(const redisReply *reply)
{
    struct batch batch = {0};
    if (batch_read_entries(reply, &batch) == 0)
        batch_done(&batch);
    if (batch_read_rows(reply, &batch) == 0)
        batch_done(&batch);
}

/* NOLINTNEXTLINE(readability-identifier-naming) */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    redisReader *reader = redisReaderCreate();
    void *reply = NULL;
    if (!reader)
        return 0;
    /* Larger arrays are refused by hiredis itself. */
    reader->maxelements = 65536;
    if (redisReaderFeed(reader, (const char *)data, size) == REDIS_OK &&
        redisReaderGetReply(reader, &reply) == REDIS_OK && reply) {
        read_batches(reply);
        freeReplyObject(reply);
    }
    redisReaderFree(reader);
    return 0;
}
