#include "tools/quire-streamd/handshake.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <utility>

#include "base/core/check.h"
#include "base/text/coding.h"
#include "io/files/machine.h"
#include "io/paths/private_file.h"

namespace quire::streamd {
namespace {

constexpr size_t kTokenBytesMin = 32;
constexpr size_t kTokenBytesMax = 4096;
// Each digest has its own purpose, so that none that is sent can be sent back as another.
constexpr char kClientProof[] = "quire-streamd 1 client";
constexpr char kServerProof[] = "quire-streamd 1 server";
constexpr char kSessionKeys[] = "quire-streamd 1 keys";

bool SameDigest(Slice a, Slice b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

ChannelKeys KeysOf(const Token& token, Slice client_nonce, Slice server_nonce) {
  const std::string bytes = token.Digest(kSessionKeys, client_nonce, server_nonce);
  return {base::LoadLe<uint64_t>(bytes.data()), base::LoadLe<uint64_t>(bytes.data() + 8)};
}

std::string Frame(TcpFrameKind kind, uint64_t sequence, Slice payload) {
  std::string frame =
      EncodeFrameHead({kind, 0, static_cast<uint32_t>(payload.size())}, payload, {0, sequence});
  return frame.append(payload);
}

Result<std::string> Payload(TcpFrameKind kind, uint64_t sequence, Slice frame) {
  const Slice bytes = frame.substr(0, kFrameHeadBytes);
  QUIRE_ASSIGN_OR_RETURN(const FrameHead head, DecodeFrameHead(bytes, {0, sequence}));
  const Slice payload = frame.substr(kFrameHeadBytes);
  if (head.kind != kind || head.size != kDigestBytes || payload.size() != kDigestBytes) {
    return Status(Code::kCorruption, "a stream daemon was called in a way that it does not know");
  }
  QUIRE_RETURN_IF_ERROR(CheckPayload(bytes, payload, {0, sequence}));
  return std::string(payload);
}

Status MakeToken(io::FileSystem& fs, const std::string& path) {
  QUIRE_RETURN_IF_ERROR(io::WriteFile(fs, path + ".new", NewNonce()));
  QUIRE_RETURN_IF_ERROR(fs.Rename(path + ".new", path));
  return fs.SyncDirectory(io::DirectoryOf(path));
}

}  // namespace

std::string NewNonce() {
  std::string nonce;
  while (nonce.size() < kDigestBytes) base::PutFixed(&nonce, io::RandomU64());
  return nonce;
}

Result<Token> Token::From(Slice secret) {
  if (secret.size() < kTokenBytesMin) {
    return Status(Code::kInvalidArgument,
                  "a token has at least 32 bytes: head -c 32 /dev/urandom > FILE");
  }
  return Token(std::string(secret));
}

Result<Token> Token::Load(io::FileSystem& fs, const std::string& path, bool make) {
  auto secret = io::ReadPrivateFile(path, kTokenBytesMax);
  if (secret.status().code() == Code::kNotFound && make) {
    QUIRE_RETURN_IF_ERROR(MakeToken(fs, path));
    secret = io::ReadPrivateFile(path, kTokenBytesMax);
  }
  if (!secret.ok()) return secret.status().WithContext("no token");
  auto token = From(*secret);
  OPENSSL_cleanse(secret->data(), secret->size());
  return token.ok() ? token : token.status().WithContext(path);
}

Token::~Token() {
  OPENSSL_cleanse(secret_.data(), secret_.size());
}

std::string Token::Digest(Slice purpose, Slice client_nonce, Slice server_nonce) const {
  std::string message;
  base::PutLengthPrefixed(&message, purpose);
  base::PutLengthPrefixed(&message, client_nonce);
  base::PutLengthPrefixed(&message, server_nonce);
  std::string digest(kDigestBytes, '\0');
  unsigned size = 0;
  const auto* const made =
      ::HMAC(EVP_sha256(), secret_.data(), static_cast<int>(secret_.size()),
             reinterpret_cast<const unsigned char*>(message.data()), message.size(),
             reinterpret_cast<unsigned char*>(digest.data()), &size);
  QUIRE_CHECK(made != nullptr && size == kDigestBytes);
  return digest;
}

Result<std::string> ServerHandshake::Consume(Slice frame) {
  const TcpFrameKind kind = frames_ == 0 ? TcpFrameKind::kHello : TcpFrameKind::kProof;
  if (done_) return Status(Code::kCorruption, "the handshake is over");
  QUIRE_ASSIGN_OR_RETURN(std::string payload, Payload(kind, frames_, frame));
  if (frames_++ > 0) return Welcome(payload);
  client_nonce_ = std::move(payload);
  return Frame(TcpFrameKind::kChallenge, 0, nonce_);
}

Result<std::string> ServerHandshake::Welcome(Slice proof) {
  if (!SameDigest(proof, token_.Digest(kClientProof, client_nonce_, nonce_))) {
    return Status(Code::kInvalidArgument, "the peer has another token");
  }
  done_ = true;
  keys_ = KeysOf(token_, client_nonce_, nonce_);
  return Frame(TcpFrameKind::kWelcome, 1, token_.Digest(kServerProof, client_nonce_, nonce_));
}

Result<std::unique_ptr<Channel>> CallAsClient(io::Socket socket, const Token& token,
                                              uint64_t deadline_ns) {
  const std::string nonce = NewNonce();
  std::string frame(kHandshakeFrameBytes, '\0');
  QUIRE_RETURN_IF_ERROR(socket.WriteAll(Frame(TcpFrameKind::kHello, 0, nonce), {}, deadline_ns));
  QUIRE_RETURN_IF_ERROR(socket.ReadAll(frame.data(), frame.size(), deadline_ns));
  QUIRE_ASSIGN_OR_RETURN(const std::string challenge, Payload(TcpFrameKind::kChallenge, 0, frame));
  const std::string proof = token.Digest(kClientProof, nonce, challenge);
  QUIRE_RETURN_IF_ERROR(socket.WriteAll(Frame(TcpFrameKind::kProof, 1, proof), {}, deadline_ns));
  const Status read = socket.ReadAll(frame.data(), frame.size(), deadline_ns);
  if (!read.ok()) return read.WithContext("the daemon did not let this one in (another token?)");
  QUIRE_ASSIGN_OR_RETURN(const std::string welcome, Payload(TcpFrameKind::kWelcome, 1, frame));
  if (!SameDigest(welcome, token.Digest(kServerProof, nonce, challenge))) {
    return Status(Code::kPeerFailed, "the peer is not a daemon with the same token");
  }
  const ChannelKeys keys = KeysOf(token, nonce, challenge);
  return std::make_unique<Channel>(std::move(socket), keys.to_server, keys.to_client);
}

}  // namespace quire::streamd
