import java.io.FileInputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Semaphore;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/** Asks what early_test.go says, over HTTP/2, ten at a time, and says for each case whether the answer arrived every time. */
public class Early {
	static final int TIMES = Integer.parseInt(System.getenv("TIMES"));

	public static void main(String[] args) throws Exception {
		byte[] body = Files.readAllBytes(Path.of(System.getenv("BODY")));
		HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_2).sslContext(trust()).build();
		boolean failed = false;
		for (String line : System.getenv("CASES").split("\n")) {
			String[] c = line.split("\t");
			List<String> wrong = ask(client, c, body);
			failed |= !wrong.isEmpty();
			System.out.println(wrong.isEmpty() ? "ok " + c[0] : "not ok " + c[0] + ": " + wrong.size() + " of " + TIMES + ", such as " + wrong.get(0));
		}
		System.exit(failed ? 1 : 0);
	}

	static List<String> ask(HttpClient client, String[] c, byte[] body) throws Exception {
		HttpRequest.Builder b = HttpRequest.newBuilder(URI.create(System.getenv("GATEWAY_URL") + c[2])).timeout(Duration.ofSeconds(10));
		b.method(c[1], HttpRequest.BodyPublishers.ofByteArray(body));
		String[] names = {"authorization", "content-type", "content-encoding"};
		for (int i = 0; i < names.length; i++) {
			if (!c[3 + i].isEmpty()) {
				b.header(names[i], c[3 + i]);
			}
		}
		HttpRequest request = b.build();
		Semaphore gate = new Semaphore(10);
		List<CompletableFuture<String>> all = new ArrayList<>();
		for (int i = 0; i < TIMES; i++) {
			gate.acquire();
			all.add(client.sendAsync(request, HttpResponse.BodyHandlers.ofString()).handle((answer, e) -> {
				gate.release();
				return e != null ? e.toString() : said(answer, List.of(c[6].split(",")));
			}));
		}
		List<String> wrong = new ArrayList<>();
		for (CompletableFuture<String> one : all) {
			if (one.get() != null) {
				wrong.add(one.get());
			}
		}
		return wrong;
	}

	static String said(HttpResponse<String> answer, List<String> want) {
		if (answer.version() != HttpClient.Version.HTTP_2) {
			return "it is " + answer.version();
		}
		boolean right = want.contains(String.valueOf(answer.statusCode())) && answer.body().contains("\"error\"");
		return right ? null : answer.statusCode() + ": " + answer.body();
	}

	static SSLContext trust() throws Exception {
		KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
		store.load(null, null);
		try (FileInputStream in = new FileInputStream(System.getenv("GATEWAY_CA"))) {
			store.setCertificateEntry("ca", CertificateFactory.getInstance("X.509").generateCertificate(in));
		}
		TrustManagerFactory trusted = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
		trusted.init(store);
		SSLContext context = SSLContext.getInstance("TLS");
		context.init(null, trusted.getTrustManagers(), null);
		return context;
	}
}
