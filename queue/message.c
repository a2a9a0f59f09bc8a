#include "queue/message.h"
