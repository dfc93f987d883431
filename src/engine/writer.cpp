#include "engine/writer.h"

namespace quire::engine {
namespace {

constinit thread_local Writer own;
constinit thread_local Writer* other = nullptr;

}  // namespace

Writer& ThisWriter() { return other != nullptr ? *other : own; }

WritesFor::WritesFor(Writer* writer) : before_(other) { other = writer; }

WritesFor::~WritesFor() { other = before_; }

}  // namespace quire::engine
