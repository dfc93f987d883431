#include "comm/exchange/answer_queue.h"

#include <algorithm>
#include <utility>

#include "base/core/out_of_memory.h"

namespace quire::comm {

bool AnswerQueue::MayQueue(const Peer& peer) const {
  return peer.rank == state_.rank || (peer.queued_bytes <= state_.options.window_bytes &&
                                      bytes_ <= bytes_max_.load(std::memory_order_relaxed));
}

void AnswerQueue::Put(Peer& peer, uint64_t call, const Status& status, std::string* answer) {
  const std::string& text = status.message();
  MessageHeader header;
  header.kind = MessageKind::kAnswer;
  header.code = status.code();
  header.channel = static_cast<uint32_t>(text.size());
  header.call = call;
  header.total_size = text.size() + answer->size();
  const uint64_t part_max = state_.transport->frame_bytes_max(peer.rank) - kMessageHeaderBytes;
  if (peer.queued_answers.empty() && header.total_size <= part_max) {
    // If there is no memory for the frame, the answer is queued as if there were no room, and
    // retried later.
    const Result<bool> sent =
        base::OrOutOfMemory([&] { return state_.TrySendFrame(peer, header, text, *answer); });
    const bool again = sent.status().code() == Code::kOutOfMemory;
    if (!again && (!sent.ok() || *sent)) return;  // a peer that failed needs no answer
  }
  QueuedAnswer queued{header, {}};
  queued.payload = text.empty() ? std::move(*answer) : text + *answer;
  peer.queued_answers.push_back(std::move(queued));
  peer.queued_bytes += header.total_size;
  bytes_ += header.total_size;
  state_.counters.Buffer(0, header.total_size);
  Flush(peer);
}

void AnswerQueue::Flush(Peer& peer) {
  const uint64_t part_max = state_.transport->frame_bytes_max(peer.rank) - kMessageHeaderBytes;
  while (!peer.queued_answers.empty()) {
    QueuedAnswer& answer = peer.queued_answers.front();
    const uint64_t part = std::min(part_max, answer.header.total_size - answer.header.offset);
    const Slice bytes = Slice(answer.payload).substr(answer.header.offset, part);
    const Result<bool> sent = state_.TrySendFrame(peer, answer.header, bytes, {});
    if (!sent.ok()) return Drop(peer);
    if (!*sent) return;
    answer.header.offset += part;
    if (answer.header.offset < answer.header.total_size) continue;
    Remove(peer, answer.header.total_size);
    peer.queued_answers.pop_front();
  }
}

void AnswerQueue::Drop(Peer& peer) {
  Remove(peer, peer.queued_bytes);
  peer.queued_answers.clear();
}

void AnswerQueue::Remove(Peer& peer, uint64_t bytes) {
  peer.queued_bytes -= bytes;
  bytes_ -= bytes;
  state_.counters.Buffer(bytes, 0);
}

}  // namespace quire::comm
